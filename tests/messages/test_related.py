"""Messages of one conversation or trace are shown together, as far as the reader sees them."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.desk.queries.related import SHOWN_AROUND, around, list_related
from poisonadmin.masking.commands import save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.messages.domain.traces import parse_links, trace_id, trace_key
from tests.fixtures.api import Caller, take
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HALF = "a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
LIMITED = principal("olga", Role.OPERATOR, ["orders.#"])
VALID: list[tuple[dict[str, Any], str]] = [
    (PARENT, TRACE),
    ({"Traceparent": f"00-{TRACE.upper()}-{SPAN}-00"}, TRACE),
    ({"b3": f"{HALF}-{SPAN}-1-05e3ac9a4f6e3b90"}, HALF),
    ({"X-B3-TraceId": TRACE, "X-B3-SpanId": SPAN}, TRACE),
    ({"uber-trace-id": f"{HALF}%3A{SPAN}%3A0%3A1"}, HALF),
    ({"uber-trace-id": "1f:2:0:1"}, "1f"),
    ({"traceparent": f"00-{'0' * 32}-{SPAN}-01", "b3": f"{TRACE}-{SPAN}"}, TRACE),
]
WITHOUT: list[dict[str, Any]] = [
    {},
    {"b3": "0"},
    {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
    {"traceparent": f"00-{TRACE}"},
    {"traceparent": "00-" + "f" * 100_000},
    {"traceparent": f"00-<script>{TRACE}-{SPAN}-01"},
    {"x-b3-traceid": TRACE + "0"},
    {"uber-trace-id": "0:0:0:0"},
    {"note": f'"traceparent": "00-{TRACE}-{SPAN}-01"'},
    {"note": f'\\"b3\\":\\"{TRACE}-{SPAN}\\"', "b3x": f"{TRACE}-{SPAN}"},
    {"traceparent": "\u0000\u202e" + TRACE},
]


def stored_key(raw: bytes) -> str | None:
    """Return the trace of stored headers, as the index has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT trace_key(%s::bytea)", [raw])
        found: str | None = cursor.fetchone()[0]
    return found


def test_the_index_and_the_page_find_the_same_trace_in_a_header() -> None:
    for headers, expected in [*VALID, *((headers, None) for headers in WITHOUT)]:
        assert trace_id(headers) == expected, headers
        key = None if expected is None else trace_key(expected)
        for text in (json.dumps(headers), json.dumps(headers, ensure_ascii=False, separators=(",", ":"))):
            assert stored_key(text.encode()) == key, headers
    chance = random.Random(27)
    for raw in (b"", b"\xff\xfe\x00", b'{"traceparent": ', chance.randbytes(5000), b"\\" * 99 + b'"b3":"'):
        assert stored_key(raw) is None


def test_what_shares_a_conversation_or_a_trace_is_listed_oldest_first_with_what_it_shares() -> None:
    first = take("orders.eu", conversation_id="c1")
    both = take("orders.eu", conversation_id="c1", headers=PARENT)
    traced = take("invoices", headers={"b3": f"{TRACE}-{SPAN}"})
    take("orders.eu", conversation_id="c2", headers={"b3": f"{HALF}-{SPAN}"})
    last = take("orders.us", conversation_id="c1")
    found = list_related(both, principal=SYSTEM)
    shown = [(row.id, row.in_conversation, row.in_trace) for row in found.results]
    assert shown == [(first, True, False), (both, True, True), (traced, False, True), (last, True, False)]
    assert [row.id for row in list_related(traced, principal=SYSTEM).results] == [both, traced]
    assert [row.id for row in list_related(first, principal=SYSTEM).results] == [first, both, last]
    assert list_related(take("orders.eu"), principal=SYSTEM).results == []


def test_the_reader_sees_those_in_scope_only_page_by_page(operator: Caller, outsider: Caller) -> None:
    ids = [take(address, conversation_id="c1", headers=PARENT) for address in ("orders.eu", "secret", "orders.us")]
    assert [row.id for row in list_related(ids[0], principal=LIMITED).results] == [ids[0], ids[2]]
    assert outsider.get(f"messages/{ids[0]}/related/").status_code == 404
    path, seen = f"messages/{ids[0]}/related/?limit=1", []
    while path:
        page = operator.get(path).json()
        seen += [int(row["id"]) for row in page["results"]]
        path = page["next"] and page["next"].partition("/api/v1/")[2]
    assert seen == ids


def of(message_id: int, reader: Principal = SYSTEM) -> Any:
    """Return what the page of a message shows around it."""
    return around(get_message(message_id, principal=reader), principal=reader)


def test_a_page_shows_those_next_to_the_message_however_many_there_are() -> None:
    ids = [take("orders.eu", conversation_id="c1") for _ in range(3 * SHOWN_AROUND)]
    middle = len(ids) // 2
    found = of(ids[middle])
    assert [row.id for row in found.rows] == ids[middle - SHOWN_AROUND : middle + SHOWN_AROUND + 1]
    assert found.is_all is False
    assert of(ids[0]).rows[0].id == ids[0]
    assert of(take("orders.eu", conversation_id="c2")).is_all


def test_the_page_has_the_timeline_and_escaped_links(browser_of: Callable[[str], Client], settings: Settings) -> None:
    settings.TRACE_LINKS = parse_links(
        "Logs=https://l.example/?q={message_id} Traces=https://t.example/{trace_id} Talk=https://c.example/{conversation_id}"
    )
    hostile = '"><script>alert(1)</script>&x=/../'
    one = take("orders.eu", message_id=hostile, headers=PARENT)
    other = take("orders.us", headers=PARENT)
    page = html_of(browser_of("viewer").get(f"/messages/{one}/"))
    links = re.findall(r'<a href="([^"]*)" target="_blank" rel="noopener noreferrer">(\w+)</a>', page)
    assert links == [
        ("https://l.example/?q=%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%26x%3D%2F..%2F", "Logs"),
        (f"https://t.example/{TRACE}", "Traces"),
    ]
    timeline = page[page.index('id="related"') :].partition("</section>")[0]
    assert re.findall(r'href="([^"]*)"', timeline) == [f"/messages/{other}/"]
    assert f'href="/messages/{other}/"' in html_of(browser_of("viewer").get(f"/messages/{one}/related/"))
    assert 'id="related"' not in html_of(browser_of("viewer").get(f"/messages/{take('orders.eu')}/"))


@pytest.mark.parametrize("asked", ["orders.eu", "hidden.eu"])
def test_a_trace_that_is_masked_leads_to_nothing_and_is_not_found(asked: str) -> None:
    """Else who may not read it could learn it from any message of his own."""
    ids = {address: take(address, headers=PARENT) for address in ("orders.eu", "hidden.eu")}
    reader = principal("pat", Role.OPERATOR)
    assert len(list_related(ids[asked], principal=reader).results) == 2
    fields = MaskingRuleFields(match="hidden.#", header="traceparent", allowed_roles=["admin"])
    save_masking_rule(fields, principal=SYSTEM)
    for role, found in ((Role.OPERATOR, []), (Role.ADMIN, sorted(ids.values()))):
        shown = list_related(ids[asked], principal=principal("pat", role)).results
        assert [row.id for row in shown if row.id != ids[asked] or role is Role.ADMIN] == found
