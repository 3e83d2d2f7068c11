"""A backup that is made while messages are on their way, and restored into a new home: all is there, and goes on."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from poisonadmin.core.domain.secret_settings import without_secrets
from tests.faults.invariants import all_broken
from tests.system.running_role import assert_only_runs
from tests.whole_system.consumer import Answer, Request, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, Installation, until

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
    for name in ("secret-key", "admin-token"):
        shutil.copy2(installation.home / name, home)
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
