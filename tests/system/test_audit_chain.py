"""Whoever changes, removes, adds or reorders rows of the audit log by SQL is found out, by name."""

import json
import threading
from collections.abc import Callable, Iterator
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.access import Access, Audit, AuditSeal
from poisonadmin.system.commands import audit_seals
from poisonadmin.system.commands.audit_seals import seal_audit
from poisonadmin.system.domain.audit_chain import chain_hash
from poisonadmin.system.queries.audit import audit_sealed, count_unsealed, verify_audit
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
INSERT = "INSERT INTO audit (actor, action, object_type, object_id, details) VALUES ('pat', 'a', 'b', '1', '{}')"


def write(number: int = 5) -> list[int]:
    """Add entries and seal them; return their ids."""
    for count in range(number):
        audit.record("pat", "rule.saved", "rule", f"r{count}", note="ä", details={"count": count, "rate": 0.1})
    seal_audit()
    return list(Audit.objects.order_by("id").values_list("id", flat=True))


def tamper(statement: str, *values: object) -> None:
    """Run a statement as somebody who has switched the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def found(known: dict[int, str] | None = None) -> list[tuple[int, str]]:
    """Return what is found of the log as it is."""
    return [(one.entry_id, one.what) for one in verify_audit(known).findings]


def test_a_log_that_nobody_touched_is_as_it_was_sealed(db: None) -> None:
    ids = write()
    audit.record("kim", "user.logged_in", "user", "kim")
    compared = verify_audit()
    assert (compared.entries, compared.last_id, compared.found, count_unsealed()) == (5, ids[-1], 0, 1)
    assert seal_audit() == 1
    assert seal_audit() == 0
    assert found() == []
    assert found({ids[-1]: compared.head.hex()}) == []


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'kim'",
        "at = at - interval '1 us'",
        "note = NULL",
        "object_id = 'r9'",
        "details = '{}'",
        "request_id = ''",
    ],
)
def test_a_changed_entry_is_named(change: str) -> None:
    ids = write()
    tamper(f"UPDATE audit SET {change} WHERE id = %s", ids[2])
    assert found() == [(ids[2], "was changed")]


def test_a_removed_entry_is_named(db: None) -> None:
    ids = write()
    tamper("DELETE FROM audit WHERE id = %s", ids[1])
    assert found() == [(ids[1], "was removed")]


def test_an_entry_that_is_removed_with_its_seal_is_missed_by_the_next_one(db: None) -> None:
    ids = write()
    for table, column in (("audit", "id"), ("audit_seal", "audit_id")):
        tamper(f"DELETE FROM {table} WHERE {column} = %s", ids[1])
    assert found() == [
        (ids[2], f"has a seal that does not follow from that of entry {ids[0]}, the one before it"),
    ]


def test_an_inserted_entry_is_named(db: None) -> None:
    write(2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('audit_id_seq')")
        [gap] = cursor.fetchone()
    write(1)
    tamper("INSERT INTO audit SELECT %s, at, 'kim', action, 'x', 'y', note, details FROM audit LIMIT 1", gap)
    assert found() == [(gap, "was inserted: entries behind it were sealed without it")]
    seal_audit()
    assert len(found()) == 1, "nothing seals it afterwards"


def test_reordered_entries_are_named_with_the_place_of_each(db: None) -> None:
    ids = write()
    for old, new in ((ids[1], 0), (ids[3], ids[1]), (0, ids[3])):
        tamper("UPDATE audit SET id = %s WHERE id = %s", new, old)
    assert found() == [
        (ids[1], f"holds what was sealed as entry {ids[3]}"),
        (ids[3], f"holds what was sealed as entry {ids[1]}"),
    ]


def test_a_seal_that_was_made_to_fit_a_changed_entry_breaks_the_chain(db: None) -> None:
    ids = write()
    tamper("UPDATE audit SET actor = 'kim' WHERE id = %s", ids[1])
    tamper("UPDATE audit_seal SET row_hash = %s WHERE audit_id = %s", _row_hash(ids[1]), ids[1])
    assert found() == [(ids[1], f"has a seal that does not follow from that of entry {ids[0]}, the one before it")]
    before = bytes(AuditSeal.objects.get(audit_id=ids[0]).chain_hash)
    chained = chain_hash(before, ids[1], _row_hash(ids[1]))
    tamper("UPDATE audit_seal SET chain_hash = %s WHERE audit_id = %s", chained, ids[1])
    assert found() == [(ids[2], f"has a seal that does not follow from that of entry {ids[1]}, the one before it")]


def test_a_chain_that_was_written_anew_or_cut_off_is_found_by_a_seal_that_was_noted(db: None) -> None:
    ids = write()
    head = verify_audit().head.hex()
    tamper("UPDATE audit SET actor = 'kim' WHERE id = %s", ids[1])
    tamper("DELETE FROM audit_seal")
    seal_audit()
    assert found() == []
    assert found({ids[-1]: head}) == [(ids[-1], "has another seal than the one that was noted")]
    for table, column in (("audit", "id"), ("audit_seal", "audit_id")):
        tamper(f"DELETE FROM {table} WHERE {column} = %s", ids[-1])
    assert found() == []
    assert found({ids[-1]: head}) == [(ids[-1], "has no seal, though one was noted")]


def test_more_findings_than_anybody_reads_are_counted(db: None) -> None:
    write(1005)
    tamper("UPDATE audit SET actor = 'kim'")
    compared = verify_audit()
    assert (compared.found, len(compared.findings)) == (1005, 1000)


def _row_hash(entry_id: int) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {audit_seals.ROW_HASH} FROM audit WHERE id = %s", [entry_id])
        return bytes(cursor.fetchone()[0])


@pytest.fixture
def writers(transactional_db: None, test_database_url: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Yield a function that opens a session of its own."""
    open_ones: list[psycopg.Connection] = []

    def open_one() -> psycopg.Connection:
        open_ones.append(psycopg.connect(test_database_url))
        return open_ones[-1]

    yield open_one
    for session in open_ones:
        session.close()


@pytest.mark.django_db(transaction=True)
def test_an_id_that_is_committed_after_greater_ones_is_sealed_in_its_place(
    writers: Callable[[], psycopg.Connection],
) -> None:
    slow, quick = writers(), writers()
    [early] = slow.execute(f"{INSERT} RETURNING id").fetchone() or ()
    [late] = quick.execute(f"{INSERT} RETURNING id").fetchone() or ()
    quick.commit()
    assert early < late
    assert seal_audit(wait_seconds=0) == 0, "the smaller one may still come"
    slow.commit()
    assert seal_audit() == 2
    assert found() == []


@pytest.mark.django_db(transaction=True)
def test_an_id_that_is_never_committed_holds_nothing_up(writers: Callable[[], psycopg.Connection]) -> None:
    slow, quick = writers(), writers()
    slow.execute(INSERT)
    quick.execute(INSERT)
    quick.commit()
    slow.rollback()
    assert seal_audit() == 1
    assert found() == []


@pytest.mark.django_db(transaction=True)
def test_writers_that_begin_while_it_waits_are_neither_held_up_nor_waited_for(
    writers: Callable[[], psycopg.Connection],
) -> None:
    first, second = writers(), writers()
    first.execute(INSERT)
    audit.record("pat", "a", "b", "2")

    def go_on(_: float) -> None:
        second.execute(INSERT)  # would wait here if the sealing held a lock
        first.commit()

    assert seal_audit(sleep=go_on) == 2
    second.commit()
    assert seal_audit() == 1
    assert found() == []


@pytest.mark.django_db(transaction=True)
def test_under_many_writers_every_entry_is_sealed_once(test_database_url: str) -> None:
    def write_on(number: int) -> None:
        with psycopg.connect(test_database_url) as session:
            for count in range(100):
                session.execute(INSERT)
                session.execute(INSERT)
                session.rollback() if (count + number) % 5 == 0 else session.commit()

    threads = [threading.Thread(target=write_on, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seal_audit()
        assert found() == []
    seal_audit()
    assert AuditSeal.objects.count() == Audit.objects.count() == 640
    assert verify_audit().found == 0


def test_the_command_names_what_it_finds_and_fails(db: None) -> None:
    ids = write()
    said = StringIO()
    call_command("verify_audit", stdout=said)
    assert "5 entries are sealed, 0 wait for their seal." in said.getvalue()
    assert "The audit log is as it was sealed." in said.getvalue()
    [noted] = [line.rpartition(" ")[2] for line in said.getvalue().splitlines() if "latest seal" in line]
    call_command("verify_audit", noted=[noted], stdout=said)
    tamper("UPDATE audit SET note = 'nothing' WHERE id = %s", ids[3])
    said = StringIO()
    with pytest.raises(CommandError, match="1 findings"):
        call_command("verify_audit", noted=[noted], stdout=said)
    assert f"Entry {ids[3]} was changed.\n" in said.getvalue()
    with pytest.raises(CommandError, match="is no ID:SEAL"):
        call_command("verify_audit", noted=["12"])


def test_the_page_says_until_when_the_log_is_sealed(browser_of: Callable[[str], Client]) -> None:
    admin = browser_of("admin")
    assert "No entry is sealed yet." in html_of(admin.get("/audit/"))
    write()
    assert "Sealed until" in html_of(admin.get("/audit/"))
    assert "wait for their seal" not in html_of(admin.get("/audit/"))
    audit.record("pat", "a", "b", "1")
    assert "wait for their seal" in html_of(admin.get("/audit/"))
    Access.objects.update(address_patterns=["orders.#"])
    assert "Sealed until" not in html_of(admin.get("/audit/"))


def test_what_is_sealed_is_json_that_does_not_depend_on_the_order_of_its_keys(db: None) -> None:
    write(1)
    entry = Audit.objects.get()
    tamper("UPDATE audit SET details = %s", json.dumps({"rate": 0.1, "count": 0}))
    assert Audit.objects.get().details == entry.details
    assert found() == []
    sealed = audit_sealed(principal=SYSTEM)
    assert sealed is not None
    assert (sealed.until, sealed.unsealed_since) == (entry.at, None)
