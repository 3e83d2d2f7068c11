"""Two machines that share PostgreSQL, Redis and an object store, and no directory: each has what the other one made."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from poisonadmin.core.domain.secret_settings import DATABASE_URL, REDIS_URL, secret_setting
from poisonadmin.embedded.spark import ConnectServer
from tests.archive.s3_server import running_s3
from tests.fixtures.class_archive import give_archive
from tests.whole_system.consumer import Answer, Request, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import Installation, until

# Few rows as JSON are answered at once.
FORMATS = ("csv", "ndjson", "parquet", "xlsx")
SHARED_SECRET = "two-machines-share-this-key-of-theirs-32"


class SecondMachine(Installation):
    """One with a host name of its own, as a container has it: by it a worker knows its machine. Java looks it up."""

    prefix = ("unshare", "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh")


def refuses_some(request: Request) -> Answer:
    """Refuse what says so."""
    return Answer(503 if b"refused" in request.body else 200)


@pytest.fixture
def machines(tmp_path: Path, trained_server: ConnectServer) -> Iterator[tuple[Installation, Installation]]:
    """Yield both, ready."""
    with ExitStack() as running:
        s3 = running.enter_context(running_s3(tmp_path))
        own = s3.environment | {"POISONADMIN_ARCHIVE": s3.place, "POISONADMIN_SECRET_KEY": SHARED_SECRET}
        homes = tmp_path / "first", tmp_path / "second"
        for home in homes:
            home.mkdir()
            give_archive(trained_server, home)
        first = Installation(homes[0], **own)
        running.callback(first.stop)
        first.until_ready()
        services = {name: secret_setting(first.environment, name) for name in (DATABASE_URL, REDIS_URL)}
        services["MIGRATION_DATABASE_URL"] = (homes[0] / "secrets" / "migration-database-url").read_text()
        shutil.copy(homes[0] / "admin-token", homes[1])
        second = SecondMachine(homes[1], **own, **services)
        running.callback(second.stop)
        second.until_ready()
        until(lambda: len(first.rows(_BATCH_WORKERS)) == 2, 300)
        yield first, second


_BATCH_WORKERS = "SELECT FROM worker WHERE name LIKE 'spark-batch@%' AND heartbeat_at > now() - interval '30 s'"


def reported(machine: Installation, written_as: str) -> Any:
    """Have a report made that takes a job, and return it."""
    asked = {"kind": "failures", "columns": ["id", "address", "payload"], "format": written_as}
    path = f"reports/{machine.post('reports/', asked)['id']}/"
    until(lambda: machine.get(path)["ended_at"], 120)
    return machine.get(path)


@pytest.mark.long
def test_what_one_machine_made_the_other_one_has(machines: tuple[Installation, Installation]) -> None:
    first, second = machines
    with consuming(refuses_some) as consumer:
        once = {"max_delivery_attempts": 1, "on_exhausted": "park"}
        to = HttpDestination.create(first, "shared", consumer, **once)
        via_second = HttpDestination(second, "shared", consumer)
        delivered = [one.send(f"taken {n}") for n in range(5) for one in (to, via_second)]
        refused = [one.send(f"refused {n}") for n in range(5) for one in (to, via_second)]
        for message_id in delivered:
            to.until(message_id, "DLVD", 120)
        for message_id in refused:
            via_second.until(message_id, "NDLV", 120)
    assert {arrival.message_id for arrival in consumer.arrivals} == {*delivered, *refused}

    # Reports: whichever worker made them, whichever web process is asked.
    for n in range(40):
        report = reported(machines[n % 2], FORMATS[n % len(FORMATS)])
        assert (report["state"], report["error"], report["result"]["rows"]) == ("succeeded", None, len(refused))
        for machine in machines:
            content = machine.ask("GET", f"reports/{report['id']}/download/")
            assert content.status == 200, content.body[:500]
            assert hashlib.sha256(content.body).hexdigest() == report["result"]["sha256"]
        made_by = first.rows("SELECT DISTINCT worker FROM run WHERE kind = 'report'")
        if len(made_by) == 2 and n >= len(FORMATS):
            break
    else:
        pytest.fail(f"only {made_by} made reports")
    for machine in machines:
        assert not [*(machine.home / "drafts").glob("*")]
        assert not (machine.home / "reports").exists()
        assert not (machine.home / "archive").exists()

    # The archive: one run, read, searched and restored by both.
    with psycopg.connect(first.superuser_url, autocommit=True) as session:
        session.execute("UPDATE message SET state_at = now() - interval '40 days' WHERE state = 'DLVD'")
    run = f"archive/{first.post('archive/run/')['id']}/"
    until(lambda: second.get(run)["ended_at"], 180)
    assert (second.get(run)["state"], second.get(run)["error"]) == ("succeeded", None)
    for machine in machines:
        assert machine.get("archive/messages/")["count"] == len(delivered)
        assert machine.get(f"messages/{delivered[0]}/")["archived"] is True
        assert machine.ask("GET", f"messages/{delivered[0]}/payload/").body == b"taken 0"
    search = f"searches/{first.post('searches/', {'q': 'payload:taken'})['id']}/"
    until(lambda: second.get(search)["ended_at"], 120)
    assert second.get(search)["result"]["hits"] == len(delivered)
