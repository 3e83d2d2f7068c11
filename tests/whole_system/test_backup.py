"""A backup that is made while messages are on their way, and restored into a new home: all is there, and goes on."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from poisonadmin.core.domain.secret_settings import without_secrets
from poisonadmin.embedded.spark import ConnectServer
from tests.faults.invariants import all_broken
from tests.faults.load import Load
from tests.fixtures.class_archive import give_archive
from tests.system.running_role import assert_only_runs
from tests.whole_system.consumer import Answer, Request, consuming, takes
from tests.whole_system.http_destination import HttpDestination, Json
from tests.whole_system.installation import PROJECT, Installation, until
from tests.whole_system.rehearsed import ids_of_two

NAME = "backed-up"
SLOW = "in flight while the backup is made"
SECRET = "canary-of-the-backup"
# What an administrator has set up, and who may: it is the same in both.
CONFIGURED = (
    "SELECT id, username, password FROM auth_user ORDER BY id",
    "SELECT user_id, name, digest, scopes FROM api_token ORDER BY id",
    "SELECT id, name, kind, config, secrets FROM destination ORDER BY id",
    "SELECT id, match, settings FROM policy ORDER BY id",
)
HISTORY = "SELECT * FROM history WHERE message_id = ANY(%s) ORDER BY seq"
PAYLOADS = "SELECT id, headers, payload FROM body WHERE id = ANY(%s) ORDER BY id"
AUDIT = "SELECT * FROM audit WHERE id <= %s ORDER BY id"


def slow_at_first(request: Request) -> Answer:
    """Take everything, one message only after the backup is made; refuse what says so."""
    if request.body == SLOW.encode() and request.nth == 1:
        return Answer(seconds=20)
    return Answer(503 if request.body == b"refused" else 200)


def manage(installation: Installation, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command by hand, as the installation's file `environment` has it."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=without_secrets(os.environ) | installation.environment,
        capture_output=True,
        text=True,
    )


def restore(home: Path, file: Path) -> "subprocess.CompletedProcess[str]":
    """Bring the backup into a home, as `make restore` does."""
    environment = without_secrets(os.environ)
    command = [sys.executable, "-m", "poisonadmin.embedded", "restore", str(file)]
    environment["POISONADMIN_HOME"] = str(home)
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)


def bring_keys(home: Path, new: Path) -> None:
    """Copy what is kept beside a backup."""
    (new / "secrets").mkdir(mode=0o700)
    for name in ("secret-key", "admin-token", "secrets/poisonadmin-encryption-keys"):
        shutil.copy2(home / name, new / name)


@pytest.fixture
def destination(installation: Installation) -> Iterator[HttpDestination]:
    """Yield a destination with a secret, whose consumer serves both installations."""
    with consuming(slow_at_first) as consumer:
        place = {"name": NAME, "kind": "http", "config": {"url": consumer.url, "timeout_ms": 30_000}}
        installation.post("destinations/", place | {"secrets": {"Authorization": SECRET}})
        settings = {"redelivery_delay": 0, "max_delivery_attempts": 1, "on_exhausted": "park"}
        installation.post("policies/", {"match": f"{NAME}.#", "settings": settings, "destination": NAME})
        yield HttpDestination(installation, NAME, consumer)


@pytest.mark.long
def test_a_backup_brings_everything_into_a_new_home(
    installation: Installation, destination: HttpDestination, tmp_path: Path
) -> None:
    settled = [destination.send(f"delivered {n}", address=f"{NAME}.{n}") for n in range(5)]
    refused = [destination.send("refused") for _ in range(3)]
    for message_id in [*settled, *refused]:
        destination.until(message_id, "NDLV" if message_id in refused else "DLVD")
    destination.decide(refused[0], "fail")
    paused = f"addresses/{NAME}.0"
    installation.post(f"{paused}/pause/", {"reason": "maintenance"})
    [(audited,)] = installation.rows("SELECT max(id) FROM audit")
    until(lambda: installation.rows("SELECT FROM audit_seal WHERE audit_id = %s", [audited]), 60)
    verified = manage(installation, "verify_audit")
    assert verified.returncode == 0, verified.stdout
    [noted] = re.findall(r"^The latest seal is (\S+)$", verified.stdout, re.MULTILINE)
    later = destination.send("later", address=f"{NAME}.0")
    slow = destination.send(SLOW)
    until(lambda: destination.arrivals(slow))
    assert destination.message(slow)["state"] == "DLNG"
    mine, quiet = [*settled, *refused, later, slow], [*settled, *refused, later]

    file = tmp_path / "backup"
    made = manage(installation, "backup", str(file))
    assert made.returncode == 0, made.stderr
    assert file.stat().st_mode & 0o777 == 0o700
    assert (file / "database").stat().st_mode & 0o777 == 0o600
    assert destination.message(slow)["state"] == "DLNG"

    home = tmp_path / "restored"
    home.mkdir(mode=0o700)
    bring_keys(installation.home, home)
    done = restore(home, file)
    assert done.returncode == 0, done.stdout + done.stderr
    other = Installation(home)
    try:
        other.until_ready({"spark-redelivery"})
        for query in CONFIGURED:
            assert other.rows(query) == installation.rows(query) != []
        for query, values in ((HISTORY, [quiet]), (PAYLOADS, [mine]), (AUDIT, [audited])):
            assert other.rows(query, values) == installation.rows(query, values) != []
        verified = manage(other, "verify_audit", "--noted", noted)
        assert verified.returncode == 0, verified.stdout
        restored = HttpDestination(other, NAME, destination.consumer)
        # What was in flight is given back, and delivered a second time.
        restored.until(slow, "DLVD")
        assert restored.events(slow)[:3] == ["enqueued", "claimed", "outcome_lost"]
        assert len(restored.arrivals(slow)) == 2
        new = restored.send("after the restore")
        restored.until(new, "DLVD")
        [arrival] = restored.arrivals(new)
        assert arrival.headers["Authorization"] == SECRET
        other.post(f"{paused}/resume/", {"reason": "restored"})
        restored.until(later, "DLVD")
        restored.decide(refused[1], "approve")
        restored.until(refused[1], "NDLV")
        assert all_broken(other.rows) == []
        assert_only_runs(other.database_url)
    finally:
        other.stop()


def test_a_backup_goes_only_into_an_empty_database_and_a_file_that_is_not_there(
    installation: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    assert manage(installation, "backup", str(file)).returncode == 0
    again = manage(installation, "backup", str(file))
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    onto = manage(installation, "restore", str(file))
    assert (onto.returncode, "the database has tables" in onto.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.long
def test_a_broken_backup_leaves_the_new_home_empty(installation: Installation, tmp_path: Path) -> None:
    file, home = tmp_path / "backup", tmp_path / "new"
    assert manage(installation, "backup", str(file)).returncode == 0
    whole = (file / "database").read_bytes()
    (file / "database").write_bytes(whole[: len(whole) // 2])
    broken = restore(home, file)
    assert (broken.returncode, "restore failed" in broken.stdout + broken.stderr) == (1, True)
    (file / "database").write_bytes(whole)
    again = restore(home, file)
    assert again.returncode == 0, again.stdout + again.stderr
    if (home / "postgres").is_symlink():
        shutil.rmtree((home / "postgres").readlink())


RATE, BATCH = 200.0, 40
# Seconds of load before the backup, which the archive run takes, and after it.
OLD_SECONDS, LATER_SECONDS = 30, 10
AGED = "UPDATE message SET state_at = now() - interval '40 days' WHERE state = 'DLVD'"
LIVE, ARCHIVED = "SELECT message_id FROM envelope", "SELECT message_id FROM archived_message"
OPEN_RUNS = "SELECT kind, state, done FROM run WHERE kind IN ('archive', 'report') AND ended_at IS NULL"
REPORTS = "SELECT coalesce(former_id, id) FROM run WHERE kind = 'report' ORDER BY id"
REPORT = {"kind": "attempts", "columns": ["id", "address", "payload"], "format": "csv"}


def bytes_in(place: Path) -> int:
    """Return how many bytes a file has, or all files of a directory."""
    return sum(one.stat().st_size for one in (place, *place.rglob("*")) if one.is_file())


def names(installation: Installation, query: str) -> set[str]:
    return {name for (name,) in installation.rows(query)}


def ended(installation: Installation, path: str) -> Json:
    """Return a run once it has ended."""
    until(lambda: installation.get(path)["ended_at"], 180, lambda: installation.get(path))
    found: Json = installation.get(path)
    return found


@pytest.mark.long
def test_a_backup_under_traffic_has_all_that_was_accepted_before_it(
    tmp_path: Path, trained_server: ConnectServer
) -> None:
    homes, file = [tmp_path / "lost", tmp_path / "restored"], tmp_path / "backup"
    for home in homes:
        home.mkdir(mode=0o700)
        give_archive(trained_server, home)
    with ExitStack() as running:
        lost = Installation(homes[0])
        running.callback(lost.stop)
        lost.until_ready()
        consumer = running.enter_context(consuming(takes))
        load = running.enter_context(Load(HttpDestination.create(lost, "shop", consumer), RATE, batch=BATCH))
        until(lambda: len(consumer.arrivals) > RATE * OLD_SECONDS, 300, lambda: load.error or len(consumer.arrivals))
        assert ended(lost, f"reports/{lost.post('reports/', REPORT)['id']}/")["state"] == "succeeded"
        with psycopg.connect(lost.superuser_url, autocommit=True) as session:
            session.execute(AGED)
        archived = f"archive/{lost.post('archive/run/')['id']}/"
        until(lambda: lost.get(archived)["state"] != "queued", 60)
        lost.post("reports/", REPORT)

        at_its_beginning, began = lost.rows(OPEN_RUNS), time.time()
        made = manage(lost, "backup", str(file))
        assert made.returncode == 0, made.stderr
        backed_up = time.time()
        at_its_end = lost.rows(OPEN_RUNS)
        time.sleep(LATER_SECONDS)
        load.stop_after(0)
        lost.kill_everything()
        killed = time.time()

        bring_keys(*homes)
        brought = restore(homes[1], file)
        assert brought.returncode == 0, brought.stdout + brought.stderr
        restored = time.time()
        other = Installation(homes[1])
        running.callback(other.stop)
        until(other.is_ready, 300, lambda: other.output[-3000:])
        ready = time.time()
        HttpDestination(other, "shop", consumer).send("after the restore", message_id="new")
        until(lambda: "new" in {one.producer_id for one in consumer.arrivals}, 120)
        other.until_ready()

        live, kept = names(other, LIVE), names(other, ARCHIVED)
        gone = {one: at for one, at in load.accepted.items() if one not in live | kept}
        reports = [ended(other, f"reports/{report_id}/") for (report_id,) in other.rows(REPORTS)]
        until(lambda: other.rows(_NOT_DELIVERED) == [(0,)], 120, lambda: other.output[-3000:])
        again = Counter(one.producer_id for one in consumer.arrivals)
        figures = {
            "accepted": len(load.accepted),
            "open when the backup began": at_its_beginning,
            "open when it had ended": at_its_end,
            "restored: live": len(live) - 1,
            "restored: archived": len(kept),
            "restored: history": other.rows("SELECT count(*) FROM history")[0][0],
            "database, bytes": bytes_in(file / "database"),
            "archive, bytes": bytes_in(file / "archive"),
            "reports, bytes": bytes_in(file / "reports"),
            "backup, s": round(backed_up - began, 1),
            "accepted since, and gone": len(gone),
            "age of the backup, s": round(killed - began, 1),
            "of the oldest message that is gone, s": round(killed - min(gone.values()), 1),
            "delivered more than once": sum(n > 1 for n in again.values()),
            "ids given to two messages": ids_of_two(consumer),
            "restore, s": round(restored - killed, 1),
            "from restore to /readyz, s": round(ready - killed, 1),
            "from restore to the first delivery, s": round(
                min(one.at for one in consumer.arrivals if one.at > restored) - killed, 1
            ),
        }
        print(json.dumps(figures, indent=1, default=str))
        assert load.error is None
        assert min(gone.values()) >= began
        assert live & kept == set()
        assert kept
        verified = manage(other, "verify_archive")
        assert (verified.returncode, "are as they were written" in verified.stdout) == (0, True), verified.stdout
        assert [one["state"] for one in reports] == ["succeeded"] * len(reports) != []
        assert_downloaded(other, reports)
        assert all_broken(other.rows) == []

        # The archive's place is lost: deliveries go on, and its files come back from the backup.
        place = homes[1] / "archive"
        shutil.rmtree(place)
        HttpDestination(other, "shop", consumer).send("without an archive", message_id="newer")
        until(lambda: "newer" in {one.producer_id for one in consumer.arrivals}, 120)
        assert manage(other, "verify_archive").returncode == 1
        began = time.time()
        shutil.copytree(file / "archive", place)
        shutil.copytree(file / "reports", place / "reports")
        verified = manage(other, "verify_archive")
        assert verified.returncode == 0, verified.stdout
        print("archive put back and verified, s", round(time.time() - began, 1), verified.stdout)
        assert_downloaded(other, reports[:1])


def assert_downloaded(installation: Installation, reports: list[Json]) -> None:
    """Fail unless each report has its file, as it was made."""
    for report in reports:
        content = installation.ask("GET", f"reports/{report['id']}/download/")
        assert content.status == 200, content.body[:500]
        assert hashlib.sha256(content.body).hexdigest() == report["result"]["sha256"]


_NOT_DELIVERED = "SELECT count(*) FROM message WHERE state <> 'DLVD'"
