"""The failure report: any filtered list as CSV that no spreadsheet runs, streamed, and cut aloud."""

import csv
import io
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pandas as pd
import pytest
from django.test import Client

from poisonadmin.core.commands.exports.formats import csv_chunks
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.exports import guarded
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import report as report_module
from poisonadmin.search.queries.lists import iter_messages
from poisonadmin.search.queries.report import COLUMNS, report_rows
from poisonadmin.store.models.access import Audit
from tests.fixtures.pages import dead_letter, waiting

pytestmark = pytest.mark.django_db

FORMULAS = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1+1)",
    "\t=1+1",
    "\r=1+1",
    "＝1+1",
    "＋1",
    "－1",
    "＠SUM(A1)",
    " =1+1",
    '=HYPERLINK("https://evil.example","x")',
)


def report(**given: list[str]) -> bytes:
    return b"".join(csv_chunks(COLUMNS, report_rows(parse_filter(given), principal=SYSTEM)))


def read(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode("utf-8"), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_would_be_a_formula_gets_an_apostrophe(text: str) -> None:
    # A tab or line break in front begins a cell where those separate cells.
    inside = f"{text[0]}'{text[1:]}" if text[0] in "\t\r" else text
    assert guarded(text) == f"'{inside}"


@pytest.mark.parametrize("text", ["", "a=b", "orders.eu", "1-2", "'=1", "e@example.org"])
def test_an_ordinary_cell_stays_as_it_is(text: str) -> None:
    assert guarded(text) == text


def test_no_cell_of_a_report_is_a_live_formula_to_two_readers(db: None) -> None:
    for number, text in enumerate(FORMULAS):
        shown = "".join(character for character in text if character.isprintable())
        dead_letter(
            message_id=f"{shown}{number}",
            conversation_id=shown,
            dead_letter={"exception_class": text, "exception_message": f'{text}, "quoted"\r\nand a second line'},
        )
    body = report()
    rows = read(body)
    assert len(rows) == len(FORMULAS)
    with warnings.catch_warnings():
        frame = pd.read_csv(io.BytesIO(body), dtype=str, keep_default_na=False)
    cells = [value for row in rows for value in row.values()] + [str(value) for value in frame.to_numpy().flatten()]
    for cell in cells:
        assert cell.lstrip(" \u00a0\u3000\ufeff")[:1] not in set("=+-@\t\r＝＋－＠"), cell
    assert {row["error_message"] for row in rows} == set(frame["error_message"])


def test_the_report_is_the_filtered_list_with_its_last_error(operator_browser: Client) -> None:
    letter = dead_letter("orders.eu", message_id="first", dead_letter={"exception_message": "no such customer"})
    waiting("orders.us", message_id="second")
    answer = operator_browser.get("/triage/messages.csv?state=NDLV")
    body = b"".join(answer)
    rows = read(body)
    assert [row["message_id"] for row in rows] == ["first"]
    assert (
        rows[0]
        | {
            "id": str(letter.id),
            "address": "orders.eu",
            "state": "NDLV",
            "reason": "imported",
            "error_class": "com.example.Boom",
            "error_message": "no such customer",
        }
        == rows[0]
    )
    assert tuple(rows[0]) == COLUMNS
    assert body.count(b"\r\n") == 2
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert 'filename="messages.csv"' in answer.headers["Content-Disposition"]


def test_taking_a_report_out_is_audited(operator_browser: Client) -> None:
    dead_letter()
    b"".join(operator_browser.get("/triage/messages.csv?state=NDLV"))
    row = Audit.objects.get(action="report.exported")
    assert (row.actor, row.details["rows"], row.details["filter"]) == ("operator", 1, ["state"])


def test_a_byte_order_mark_is_there_when_asked_for(operator_browser: Client) -> None:
    assert b"".join(operator_browser.get("/triage/messages.csv?mark=1")).startswith(b'\xef\xbb\xbf"id",')
    assert b"".join(operator_browser.get("/triage/messages.csv")).startswith(b'"id",')


def test_a_report_that_is_cut_says_so(operator_browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "MAX_ROWS", 3)
    monkeypatch.setattr(report_module, "SLICE", 2)
    for _ in range(5):
        waiting()
    rows = read(report())
    assert len(rows) == 4
    assert rows[-1]["id"].startswith("Cut at 3 messages; more match.")
    waiting_exactly = read(report(message_id=["no-such"]))
    assert waiting_exactly == []


def test_a_report_that_takes_too_long_says_so(operator_browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*asked: Any) -> Iterator[MessageRow]:
        yield from islice(iter_messages(*asked), 2)
        raise QueryTooExpensive("This takes too long.")

    monkeypatch.setattr(report_module, "iter_messages", slow)
    monkeypatch.setattr(report_module, "SLICE", 2)
    for _ in range(5):
        waiting()
    rows = read(report())
    assert len(rows) == 3
    assert rows[-1]["id"].startswith("Cut at 2 messages; more may match")


def test_a_report_of_a_mistaken_filter_is_refused(browser_of: Callable[[str], Client]) -> None:
    assert browser_of("operator").get("/triage/messages.csv?sate=NDLV").status_code == 400
    assert not Audit.objects.filter(action="report.exported").exists()
