"""Versions of consumers, in the order of PEP 440 and of Semantic Versioning."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from poisonadmin.deployments.domain.versions import at_least

# The order of the specification, section 11.
SEMANTIC = [
    *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1"),
    *("1.1.0-SNAPSHOT", "1.1.0", "2.0.0-1", "2.0.0-1.1", "2.0.0-x.7.z", "2.0.0"),
]
_NUMBER = st.integers(0, 11)


@st.composite
def pep_440(draw: st.DrawFn) -> str:
    """Return a version that PEP 440 knows, but for a number behind a hyphen."""
    text = draw(st.sampled_from(["", "v", "1!"])) + ".".join(map(str, draw(st.lists(_NUMBER, min_size=1, max_size=4))))
    if draw(st.booleans()):
        text += draw(st.sampled_from(["a", "b", "rc", "-rc.", ".beta", "_alpha", "c"])) + str(draw(_NUMBER))
    if draw(st.booleans()):
        text += draw(st.sampled_from([".post", "-post", ".rev"])) + str(draw(_NUMBER))
    if draw(st.booleans()):
        text += f".dev{draw(_NUMBER)}"
    return text + draw(st.sampled_from(["", "+local.1"]))


@given(pep_440(), pep_440())
def test_they_are_ordered_as_pep_440_says(one: str, other: str) -> None:
    ours = Version(one.partition("+")[0]) >= Version(other.partition("+")[0])
    assert at_least(one, other) is ours


def test_they_are_ordered_as_semantic_versioning_says() -> None:
    for before, after in itertools.combinations(SEMANTIC, 2):
        assert at_least(after, before) is True
        assert at_least(before, after) is False, (before, after)


@pytest.mark.parametrize("text", ["", "9f3c2ab", "main", "1.2.x", "latest", "1..2", "\u0661.2", "1" * 101, "2.5\n2.6"])
def test_what_is_no_version_is_only_the_same_as_itself(text: str) -> None:
    assert at_least(text, text) is True
    assert (at_least(text, "1.0"), at_least("1.0", text)) == (None, None)


@given(st.text(max_size=120), st.text(max_size=120))
def test_no_text_is_too_much(one: str, other: str) -> None:
    assert at_least(one, other) in (True, False, None)
