"""Nothing of what is to be reproduced is without a test, and the page says so."""

import re

from tests.conformance.ids import IDS, SYSTEMS, system_of
from tests.conformance.named import ROOT, marked_by_id, proof_of

PAGE = ROOT / "docs" / "develop" / "conformance.md"
ROW = re.compile(r"^\| ([A-Z]+-?\w+) \| (.+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_id_is_named_by_a_test_and_every_named_id_exists() -> None:
    named = marked_by_id()
    assert sorted(set(IDS) - set(named)) == []
    assert sorted(set(named) - set(IDS)) == []


def test_every_vector_that_has_an_event_is_proved_beyond_the_pure_rule() -> None:
    proofs = {one: {proof_of(test).partition(":")[0] for test in tests} for one, tests in marked_by_id().items()}
    vectors = {one for one in IDS if one[-1].isalpha()}
    formulas = {"ART-b", "ART-e"}  # their signs and fractions are given, and no message has just these
    assert {one for one in vectors if proofs[one] <= {"pure rule"}} == formulas


def test_every_id_belongs_to_a_system() -> None:
    assert {system_of(one) for one in IDS} == set(SYSTEMS)


def test_the_page_has_every_id_once_with_its_tests_and_no_failure() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [one for one, *_ in rows] == [one for system in SYSTEMS for one in IDS if system_of(one) == system]
    assert {says for _, says, *_ in rows} == set(IDS.values())
    assert {result for *_, result in rows} == {"passed"}
    shown = {one: re.findall(r"\[(\w+)\]\(\.\./\.\./([\w/.]+)\)", tests) for one, _, _, tests, _ in rows}
    assert {one: sorted(f"{path}::{name}" for name, path in pairs) for one, pairs in shown.items()} == marked_by_id()
