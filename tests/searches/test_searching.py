"""Deep searches: what they find, in live messages and in archived ones, and for whom."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from pyspark.sql import SparkSession

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands.authentication import principal_of_user
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.runs.commands.requests import RunEnded, TooManyRuns, remove_expired_runs
from poisonadmin.search.deep.commands import requests, searching
from poisonadmin.search.deep.commands.requests import cancel_search, request_search
from poisonadmin.search.deep.commands.searching import Searching
from poisonadmin.search.deep.domain import Hit, Wave
from poisonadmin.search.deep.queries import SearchRow, first_found, get_search, list_found
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.selections import get_selection, list_members
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece
from poisonadmin.store.models.run import LongRun
from poisonadmin.store.models.search import SearchHit
from tests.fixtures.api import make_user
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import make_destination
from tests.searches.plain import PLAIN, put, search_due
from workers.spark.tables.columns import TABLES, arrow_schema
from workers.spark.tables.source import Extent, read_table

LIMITED = principal("lee", Role.OPERATOR, ["orders.#"])
WITHOUT_PAYLOADS = Principal("reader", Role.VIEWER, frozenset({Permission.READ}))


def searched(q: str, going: Searching, who: Principal = SYSTEM, **params: list[str]) -> SearchRow:
    """Return what a search has found."""
    search_id = request_search({"q": [q], **params}, principal=who)
    search_due(going)
    return get_search(search_id, principal=who)


def ids_of(search: SearchRow, who: Principal = SYSTEM) -> list[int]:
    return sorted(row.id for row in first_found(search, principal=who, limit=500))


def archive(spark: SparkSession, directory: Path, ids: Sequence[int]) -> None:
    """Move messages into a file of the archive, as far as a search sees it."""
    extent = Extent([IdRange(min(ids) - 1, max(ids))])
    rows = read_table(spark, "messages", extent, tasks=1).toArrow().cast(arrow_schema(TABLES["messages"].columns))
    name = f"{ids[0]}.parquet"
    pq.write_table(rows, directory / name)
    with connection.cursor() as cursor:
        for table in ("envelope", "body", "business_key", "message"):
            key = "message_id" if table == "business_key" else "id"
            cursor.execute(f"DELETE FROM {table} WHERE {key} = ANY(%s)", [list(ids)])
    run_id = ArchivePiece.objects.count() + 1
    piece = ArchivePiece.objects.create(
        run_id=run_id, number=0, after_id=min(ids) - 1, until_id=max(ids), state="archived"
    )
    ArchiveFile.objects.create(
        run_id=run_id, piece=piece, table_name="messages", path=name, day="2026-01-01", root="orders", rows=len(ids),
        bytes=1, sha256="0" * 64, rows_sha256="0" * 64, first_id=min(ids), last_id=max(ids), is_current=True,
    )  # fmt: skip


PAYLOADS = [
    b'{"customer": "customer-77", "order": {"total": 120.5, "lines": [{"sku": "a"}, {"sku": "b"}]}}',
    b'{"customer": "Customer-77", "order": {"total": 100}}',
    b'{"customer": "customer-7", "order": {"total": "120"}}',
    b"\xff\xfe customer-77 \x00 binary",
    gzip.compress(b"customer-77", mtime=0),
    '{"näme": "Zoë", "ok": true, "gone": null, "n": 7}'.encode(),
    b'{"n\\u00e4me": "Zo\\u00eb", "n": 7.0, "order": []}',
    b"[" * 2000 + b"]" * 2000,
    b'{"n": "7"}',
    b"",
    b"not json: total 120",
    b'{"huge": 12345678901234567890123}',
    b'{"kind": "num", "limit": 1e400}',
    b'{"kind": "\\ud800"}',
]
HUGE = len(PAYLOADS) - 3


LOOKED_FOR: list[tuple[str, list[int]]] = [
    ('payload:"customer-77"', [0, 3]),
    ('payload:"ustomer-77"', [0, 1, 3]),
    ("payload:customer payload:binary", [3]),
    ('!payload:"customer-77" payload:customer', [1, 2]),
    ("payload:Zoë", [5]),
    (r'payload:"\"n\": 7"', [5, 6]),
    ("payload.$.order.total:>100", [0]),
    ("payload.$.order.total:>=100", [0, 1]),
    ("payload.$.order.total:<=100", [1]),
    ("payload.$.order.total:>99 payload.$.order.total:<101", [1]),
    ("payload.$.order.total:120", [2]),
    ("payload.$.huge:12345678901234567890123", [HUGE]),
    ("payload.$.huge:>=12345678901234567890123 payload.$.huge:<=12345678901234567890123", [HUGE]),
    ("payload.$.kind:num", [HUGE + 1]),
    ("payload.$.kind:*", [HUGE + 1, HUGE + 2]),
    ("payload.$.order.lines[*].sku:b", [0]),
    ("payload.$.näme:Zoë", [5, 6]),
    ('payload.$.näme:"Zoë"', [5, 6]),
    ("payload.$.n:7", [5, 6, 8]),
    ('payload.$.n:"7"', [8]),
    ("payload.$.ok:true", [5]),
    ("payload.$.gone:null", [5]),
    ("payload.$.order:*", [0, 1, 2, 6]),
    ("payload.$.n:* !payload.$.n:>1", [8]),
    ("!payload.$.order:* payload:customer", [3]),
]


def test_what_is_looked_for_in_payloads_is_found(going: Searching) -> None:
    ids = put(*PAYLOADS)
    for q, places in LOOKED_FOR:
        found = searched(q, going)
        assert (found.state, found.result.hits, found.error) == ("succeeded", len(places), None), q
        assert found.done == found.total, q
        assert ids_of(found) == [ids[place] for place in places], q


def test_deep_terms_go_with_all_others(going: Searching) -> None:
    eu = put(b"a x", b"b x", b"c")
    us = put(b"a x", b"d x", address="orders.us")
    quarantine([eu[0], us[1]], principal=SYSTEM, reason="no")
    assert ids_of(searched("state:NDLV payload:x", going)) == [eu[0], us[1]]
    assert ids_of(searched("payload:x", going, state=["NDLV"], address=["orders.us"])) == [us[1]]
    assert ids_of(searched("address:orders.* !state:NDLV payload:x", going)) == [eu[1], us[0]]


def test_few_messages_are_read_by_their_ids(going: Searching) -> None:
    ids = put(*(b"x %d" % n for n in range(60)))
    quarantine(ids[10:13], principal=SYSTEM, reason="no")
    waves: list[Wave] = []

    def noted(wave: Wave) -> Sequence[Hit]:
        waves.append(wave)
        return going.find(wave)

    found = searched("state:NDLV payload:x", Searching(noted, going.in_archive))
    assert ids_of(found) == ids[10:13]
    assert [wave.ids for wave in waves] == [ids[10:13]]


def test_headers_are_compared_whole(going: Searching) -> None:
    ids = put(b"1", b"2", b"3", headers=[{"X-Trace": 'a"b'}, {"X-Trace": "ab"}, {"X-Other": "ab"}])
    assert ids_of(searched("header.X-Trace:ab", going)) == [ids[1]]
    assert ids_of(searched("!header.X-Trace:ab payload:3", going)) == [ids[2]]


def test_the_hits_are_frozen(going: Searching) -> None:
    ids = put(b"x", b"y", b"x")
    found = searched("payload:x", going)
    selection = get_selection(int(found.result.selection or 0), principal=SYSTEM)
    assert [row.id for row in list_members(selection, principal=SYSTEM).results] == [ids[0], ids[2]]
    assert selection.filter is None
    assert LongRun.objects.get(kind="search").state == "succeeded"
    assert searched("payload:nothing", going).result.selection is None


def test_archived_messages_are_found_and_counted_apart(going: Searching, spark: SparkSession, tmp_path: Path) -> None:
    kept = put(b'{"a": 2} x', b"x", headers=[{"t": "1"}, {"t": "2"}])
    gone = put(b'{"a": 2}', b"x", b"y", headers=[{"t": "1"}, {"t": "2"}, {"t": "1"}])
    quarantine([gone[1]], principal=SYSTEM, reason="no")
    archive(spark, tmp_path, gone)
    found = searched("payload:x", going)
    assert (found.result.hits, found.result.archived_hits) == (3, 1)
    assert [(row.id, row.archived, row.state) for row in first_found(found, principal=SYSTEM)] == [
        (kept[1], False, "TBDL"), (kept[0], False, "TBDL"), (gone[1], True, "NDLV"),
    ]  # fmt: skip
    assert get_selection(int(found.result.selection or 0), principal=SYSTEM).count == 2
    assert ids_of(searched("header.t:1", going)) == [kept[0], gone[0], gone[2]]
    assert ids_of(searched("payload.$.a:2", going)) == [gone[0]]
    only_archived = searched("payload:y", going)
    result = only_archived.result
    assert (result.hits, result.archived_hits, result.selection) == (1, 1, None)


OTHER_TERMS: list[tuple[str, list[int]]] = [
    ("state:NDLV", [1]),
    ("!state:NDLV", [0, 2]),
    ("address:orders.#", [0, 1, 2]),
    ("address:other", []),
    ("message:m-2", [2]),
    ("conversation:c", [1]),
    ("received:1h attempts:<1", [0, 1, 2]),
    ("!received:1h", []),
    ("key.id:7", [1]),
    ("owner:none", [0, 1, 2]),
    ("tag:late", []),
    ("reason:quarantined", [1]),
    ("group:99", []),
    ("candidate:false", [0, 1, 2]),
    ("candidate:true", []),
    ("destination:shop", [0, 1, 2]),
    ("!destination:shop", []),
    ("m-1", [1]),
    ("rders.e", [0, 1, 2]),
    ('"7"', [1]),
    ("c", [1]),
]


def test_other_terms_hold_in_the_archive(going: Searching, spark: SparkSession, tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps({"address": "orders.eu", "message_id": f"m-{n}", "payload": "x"} | more).encode() + b"\n"
        for n, more in enumerate([{}, {"conversation_id": "c"}, {}])
    )
    make_destination()
    assert accept_stream([lines], principal=SYSTEM).accepted == 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM message ORDER BY id")
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute("INSERT INTO business_key (message_id, name, value) VALUES (%s, 'id', '7')", [ids[1]])
    quarantine([ids[1]], principal=SYSTEM, reason="no")
    live = [ids_of(searched(f"payload:x {q}", going)) for q, _ in OTHER_TERMS]
    archive(spark, tmp_path, ids)
    for (q, places), before in zip(OTHER_TERMS, live, strict=True):
        found = searched(f"payload:x {q}", going)
        assert ids_of(found) == before == [ids[place] for place in places], q
        assert found.result.archived_hits == len(places), q


def test_an_archived_message_has_the_destination_of_its_return_address(
    going: Searching, spark: SparkSession, tmp_path: Path
) -> None:
    make_destination()
    moved, native = put(b"x"), put(b"x", address="elsewhere")
    there = ensure_addresses(["elsewhere"])["elsewhere"].id
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE message SET original_address_id = address_id, address_id = %s WHERE id = %s", [there, *moved]
        )
    assert ids_of(searched("payload:x destination:shop", going)) == moved
    archive(spark, tmp_path, [*moved, *native])
    assert ids_of(searched("payload:x destination:shop", going)) == moved
    assert ids_of(searched("payload:x !destination:shop", going)) == native


@pytest.mark.parametrize("q", ["error:timeout", "timeout", "error:timeout !candidate:true"])
def test_archived_failures_are_found_by_what_their_groups_say(
    q: str, going: Searching, spark: SparkSession, tmp_path: Path
) -> None:
    failed = {"reason": "gave up", "exception_class": "ReadTimeout", "exception_message": "no answer"}
    lines = [
        json.dumps({"address": "orders.eu", "message_id": f"m-{n}", "payload": "x"} | more).encode() + b"\n"
        for n, more in enumerate([{}, {"dead_letter": failed}])
    ]
    assert accept_stream(lines, principal=SYSTEM).accepted == 2
    ids = [row.id for row in list_messages(parse_filter({}), principal=SYSTEM, ordering="id").results]
    assert ids_of(searched(f"payload:x {q}", going)) == ids[1:]
    archive(spark, tmp_path, ids)
    found = searched(f"payload:x {q}", going)
    assert (ids_of(found), found.result.outside_archive) == (ids[1:], [])


@pytest.mark.parametrize(("q", "outside"), [("!error:timeout", "!error"), ("version:2", "consumer_version")])
def test_what_the_archive_cannot_be_asked_leaves_it_out(
    q: str, outside: str, going: Searching, spark: SparkSession, tmp_path: Path
) -> None:
    archive(spark, tmp_path, put(b"x"))
    found = searched(f"payload:x {q}", going)
    assert (found.result.hits, found.result.outside_archive) == (0, [outside])


def test_nobody_finds_what_is_out_of_scope(going: Searching, spark: SparkSession, tmp_path: Path) -> None:
    archive(spark, tmp_path, put(b"x", address="secret.old"))
    mine, _ = put(b"x"), put(b"x", address="secret.new")
    found = searched("payload:x", going, LIMITED)
    assert (found.result.hits, ids_of(found, LIMITED)) == (1, mine)
    whole = searched("payload:x", going)
    assert whole.result.hits == 3
    with pytest.raises(NotFound):
        get_search(whole.id, principal=LIMITED)
    assert get_search(found.id, principal=SYSTEM).result.hits == 1


def test_payloads_are_searched_by_who_may_read_them(going: Searching) -> None:
    ids = put(b"x", headers=[{"t": "1"}])
    with pytest.raises(NotAllowed):
        request_search({"q": ["payload:x"]}, principal=WITHOUT_PAYLOADS)
    found = searched("header.t:1", going, WITHOUT_PAYLOADS)
    assert [row.id for row in list_found(found, principal=WITHOUT_PAYLOADS).results] == ids
    deep = searched("payload:x", going)
    with pytest.raises(NotAllowed):
        get_search(deep.id, principal=WITHOUT_PAYLOADS)


def test_a_search_that_is_cut_off_goes_on_where_it_was(going: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_MESSAGES", 4)
    ids = put(*(b"x" for _ in range(20)))
    search_id = request_search({"q": ["payload:x"]}, principal=SYSTEM)
    calls = 0

    def dies(wave: Wave) -> Sequence[Hit]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return going.find(wave)

    with pytest.raises(KeyboardInterrupt):
        search_due(Searching(dies, going.in_archive))
    half = get_search(search_id, principal=SYSTEM)
    assert (half.state, half.result.hits) == ("running", 4)
    assert half.total is not None
    assert 0 < half.done < half.total
    assert ids_of(half) == ids[-4:]
    search_due(going)
    assert ids_of(get_search(search_id, principal=SYSTEM)) == ids


def test_a_search_is_cancelled(going: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_MESSAGES", 4)
    put(*(b"x" for _ in range(20)))
    search_id = request_search({"q": ["payload:x"]}, principal=SYSTEM)

    def cancels(wave: Wave) -> Sequence[Hit]:
        found = going.find(wave)
        cancel_search(search_id, principal=SYSTEM)
        return found

    search_due(Searching(cancels, going.in_archive))
    found = get_search(search_id, principal=SYSTEM)
    assert (found.state, found.result.hits, found.result.selection) == ("cancelled", 0, None)
    assert LongRun.objects.get(kind="search").state == "cancelled"
    with pytest.raises(RunEnded):
        cancel_search(search_id, principal=SYSTEM)


def test_an_error_ends_the_search(going: Searching) -> None:
    put(b"x")
    search_id = request_search({"q": ["payload:x"]}, principal=SYSTEM)

    def fails(_: Wave) -> Sequence[Hit]:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        search_due(Searching(fails, going.in_archive))
    found = get_search(search_id, principal=SYSTEM)
    assert (found.state, found.error) == ("failed", "OSError: no room")


def test_no_more_is_kept_than_there_is_room_for(going: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_MESSAGES", 4)
    monkeypatch.setattr(searching, "MAX_HITS", 5)
    ids = put(*(b"x" for _ in range(20)))
    found = searched("payload:x", going)
    assert (found.result.hits, found.result.is_capped, ids_of(found)) == (5, True, ids[-5:])


def test_accounts_take_turns(going: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_MESSAGES", 4)
    monkeypatch.setattr(searching, "SEARCH", replace(searching.SEARCH, slice_seconds=0.0))
    monkeypatch.setattr(searching, "WAVE_SECONDS", 0.0)  # each is as small as can be
    put(*(b"x" for _ in range(12)))
    for q, who in (("payload:x1", SYSTEM), ("payload:x2", SYSTEM), ("payload:y", LIMITED)):
        request_search({"q": [q]}, principal=who)
    looked_for: list[Any] = []

    def noted(wave: Wave) -> Sequence[Hit]:
        looked_for.append(wave.clauses[0])
        return ()

    search_due(Searching(noted, going.in_archive))
    asked = [one.held for one in looked_for]
    assert asked[:4] == [b"x1", b"y", b"x1", b"y"]
    assert asked[-1] == b"x2"


def test_an_account_has_few_searches_at_once(going: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SEARCH", replace(requests.SEARCH, max_open=2))
    one = request_search({"q": ["payload:x"]}, principal=SYSTEM)
    assert request_search({"q": ["payload:x"]}, principal=SYSTEM, finds_former=True) == one
    request_search({"q": ["payload:y"]}, principal=SYSTEM)
    with pytest.raises(TooManyRuns):
        request_search({"q": ["payload:z"]}, principal=SYSTEM)
    request_search({"q": ["payload:z"]}, principal=LIMITED)


def test_searches_are_removed_after_a_day(going: Searching) -> None:
    ids = put(b"x")
    found = searched("payload:x", going)
    remove_expired_runs()
    requests.remove_hits_without_search()
    assert (ids_of(get_search(found.id, principal=SYSTEM)), SearchHit.objects.count()) == (ids, 1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE run SET expires_at = now() - interval '1 s'")
    with pytest.raises(NotFound):
        get_search(found.id, principal=SYSTEM)
    remove_expired_runs()
    requests.remove_hits_without_search()
    assert not LongRun.objects.exists()
    assert not SearchHit.objects.exists()


@pytest.mark.django_db
def test_a_list_cannot_be_narrowed_by_payloads() -> None:
    with pytest.raises(InvalidFilter, match="search job") as refused:
        list_messages(parse_filter({"q": ["payload:x"]}), principal=SYSTEM)
    assert refused.value.code == "needs_search"
    with pytest.raises(InvalidFilter, match="names a payload or a header"):
        request_search({"q": ["state:NDLV"]}, principal=SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_rights_that_are_taken_away_are_taken_from_searches() -> None:
    eu, us = put(b"x"), put(b"x", address="orders.us")
    user = make_user("kim", Role.OPERATOR, [])
    kim = principal_of_user(user)
    assert kim is not None
    limited = request_search({"q": ["payload:x"]}, principal=kim)
    Access.objects.filter(user=user).update(address_patterns=["orders.eu"])
    search_due(PLAIN)
    assert (ids_of(get_search(limited, principal=SYSTEM)), len(us)) == (eu, 1)
    refused = request_search({"q": ["payload:x"]}, principal=kim)
    Access.objects.filter(user=user).delete()
    search_due(PLAIN)
    found = get_search(refused, principal=SYSTEM)
    assert (found.state, found.result.hits) == ("failed", 0)
    assert "kim may not do this any more" in (found.error or "")
