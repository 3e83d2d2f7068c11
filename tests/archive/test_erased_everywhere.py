"""An erased payload is in no file: not of the database, its log included, nor of the archive."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.search.commands.selections import freeze
from tests.archive.fixtures import age, archive_with, erase_with, fail, in_process, place  # noqa: F401  (fixtures)
from tests.archive.in_process import InProcessStore
from tests.fixtures.api import take
from tests.fixtures.decisions import mark_fail, quarantine
from tests.fixtures.delivery import answer, claim, end_nodes, make_destination
from tests.services import Services

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process")]
# Nothing that PostgreSQL compresses: it stands in the files as it is.
MARKERS = {name: f"{name}-7f3a9c51e8d2" for name in ("payload", "header", "key", "error", "former", "conversation")}
PATIENCE = 3


@pytest.fixture
def superuser(services: Services) -> Iterator[psycopg.Connection]:
    """Yield a session that may look at the database's directory, with a log that is not compressed."""
    url = f"{services.superuser_url.rpartition('/')[0]}/{connection.settings_dict['NAME']}"
    with psycopg.connect(url, autocommit=True) as session:
        for setting in ("wal_compression = off", "wal_recycle = off"):
            session.execute(f"ALTER SYSTEM SET {setting}")
        session.execute("SELECT pg_reload_conf()")
        yield session
        for setting in ("wal_compression", "wal_recycle"):
            session.execute(f"ALTER SYSTEM RESET {setting}")
        session.execute("SELECT pg_reload_conf()")


def where_found(directory: Path) -> dict[str, set[str]]:
    """Return which markers are in which files below a directory."""
    found: dict[str, set[str]] = {}
    for top, _, names in os.walk(directory):
        for name in names:
            try:
                content = Path(top, name).read_bytes()
            except FileNotFoundError:  # the database has just removed it
                continue
            if markers := {one for one in MARKERS.values() if one.encode() in content}:
                found[str(Path(top, name).relative_to(directory))] = markers
    return found


def test_an_erased_message_is_in_no_file(superuser: psycopg.Connection, place: str) -> None:  # noqa: F811
    (data,) = superuser.execute("SHOW data_directory").fetchone() or ("",)
    make_destination(business_keys=["$.key"])
    live, archived = (
        take(
            message_id=name,
            payload={"text": MARKERS["former"], "key": MARKERS["key"]},
            headers={"h": MARKERS["header"]},
            conversation_id=MARKERS["conversation"],
        )
        for name in ("live", "archived")
    )
    letter = {"reason": "gave up", "exception_class": "TimeoutError", "exception_message": MARKERS["error"]}
    dead = take(message_id="dead", payload=MARKERS["payload"], dead_letter=letter)
    taken = claim()
    answer([live, archived], "failed", error_message=MARKERS["error"], response=MARKERS["payload"].encode())
    end_nodes(taken)
    settle()
    quarantine([live, archived], principal=SYSTEM, reason="no")
    for one in (live, archived):
        patch = {"payload": MARKERS["payload"], "headers": {"set": {"h2": MARKERS["header"]}}}
        frozen = freeze(ids=[one], principal=SYSTEM)
        begin(frozen, OperationAction.PATCH, params=patch, reason="r", principal=SYSTEM)
    quarantine([live, archived], principal=SYSTEM, reason="no")
    assert mark_fail([live, archived, dead], principal=SYSTEM, reason="given up").changed
    age([archived], 500)
    store = InProcessStore(settings.ARCHIVE)
    request_archive_run(principal=SYSTEM)
    archive_with(store)
    assert fetch_values("SELECT id FROM archived_message") == [archived]
    superuser.execute("CHECKPOINT")
    before = where_found(Path(data))
    assert set().union(*before.values()) == set(MARKERS.values())
    assert any(name.startswith("pg_wal/") for name in before)

    request_erasure({"message_id": ["live", "archived", "dead"]}, reason="letter of May", principal=SYSTEM)
    erase_with(store)
    assert fetch_values("SELECT count(*) FROM erased_message") == [3]
    connection.close()
    # What docs/operate/archive.md says.
    superuser.execute("VACUUM FULL")
    for _ in range(PATIENCE):
        superuser.execute("SELECT pg_switch_wal()")
        superuser.execute("CHECKPOINT")
    assert where_found(Path(data)) == {}
    assert where_found(Path(place)) == {}
    assert where_found(Path(settings.HOME)) == {}
