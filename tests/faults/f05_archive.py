"""F5: workers, Spark and the database killed at seeded moments of a run of the archive."""

import contextlib
import hashlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from tests.faults import invariants
from tests.faults.kills import jvm_of, kill, until_database_answers
from tests.faults.run import Result
from tests.faults.stages import staged
from tests.whole_system.installation import PROJECT, Installation

FAMILY, NAME = "F5", "archive run"
BACKLOG = 200_000
KILLS = 10
VICTIMS = ("spark-batch", "postgres", "java", "io", "beat")
COMPLETED_SECONDS = 900
Row = tuple[Any, ...]
_LIVE = "SELECT message_id, seq FROM history"
_BODIES = "SELECT id, md5(payload) FROM body"
# At some addresses payloads are not kept at all.
EMPTIED = "orders.#"
_EXPECTED = """
SELECT body.id, md5(CASE WHEN state IN ('DLVD', 'FAIL') AND name LIKE 'orders.%' THEN '' ELSE payload END)
FROM body JOIN message USING (id) JOIN address ON address.id = address_id
"""


def run(seed: int) -> Result:
    """Archive what is final of a backlog, kill something ten times, and find each row and payload once."""
    dice = random.Random(f"{FAMILY} {NAME} {seed}")
    with staged("plain") as installation:
        _load(installation)
        installation.post("policies/", {"match": EMPTIED, "settings": {"keep_payload_days": 0}})
        before = {"history": Counter(installation.rows(_LIVE)), "payloads": Counter(installation.rows(_EXPECTED))}
        asked = installation.ask("POST", "archive/run/", {"as_of": "2100-01-01T00:00:00Z"}).expect(202)
        kills = _kill_some(installation, dice)
        wrong, seconds = _until_over(installation, str(asked["id"]))
        after = {
            "history": Counter(installation.rows(_LIVE)) + _archived(installation, "history", _places),
            "payloads": Counter(installation.rows(_BODIES)) + _archived(installation, "messages", _payloads),
        }
        for what, there in before.items():
            lost, doubled = sum((there - after[what]).values()), sum((after[what] - there).values())
            if lost or doubled:
                wrong.append(f"of {what} {lost} are lost, {doubled} doubled")
        wrong += _changed_files(installation)
        wrong += invariants.all_broken(installation.rows)
        count = installation.rows("SELECT count(*) FROM archived_message")[0][0]
    moment = f"kill -9 of {', '.join(kills)} while {count:,} messages are archived"
    return Result(FAMILY, NAME, seed, moment, count, 0, 0, 0, 0, seconds, tuple(wrong))


def _load(installation: Installation) -> None:
    command = [sys.executable, "manage.py", "load_backlog", "--messages", str(BACKLOG), "--groups", "40"]
    environment = os.environ | installation.environment
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, stdout=subprocess.DEVNULL)


def _archived(installation: Installation, table: str, rows_of: Callable[[Path], Iterable[Row]]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    query = "SELECT path FROM archive_file WHERE is_current AND table_name = %s"
    for (path,) in installation.rows(query, [table]):
        found.update(rows_of(Path(installation.home, "archive", path)))
    return found


def _places(path: Path) -> Iterable[Row]:
    rows = pq.read_table(path, columns=["message_id", "seq"])
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _payloads(path: Path) -> Iterable[Row]:
    rows = pq.read_table(path, columns=["id", "payload"])
    ids, payloads = (column.to_pylist() for column in rows.columns)
    return zip(ids, (hashlib.md5(one, usedforsecurity=False).hexdigest() for one in payloads), strict=True)


def _changed_files(installation: Installation) -> list[str]:
    """Return the files that are not what was noted of them, and those that nobody notes."""
    noted = dict(installation.rows("SELECT path, sha256 FROM archive_file"))
    place = Path(installation.home, "archive")
    there = {str(path.relative_to(place)): path for path in place.rglob("*.parquet*")}
    changed = [
        path for path in noted.keys() & there if hashlib.sha256(there[path].read_bytes()).hexdigest() != noted[path]
    ]
    return [
        *invariants.told("files are not what was written", changed),
        *invariants.told("files are missing, or noted by nobody", sorted(noted.keys() ^ there)),
    ]


def _kill_some(installation: Installation, dice: random.Random) -> list[str]:
    kills: list[str] = []
    while len(kills) < KILLS:
        time.sleep(dice.uniform(0.5, 5.0))
        name = dice.choice(VICTIMS)
        # Killed before, and not started again yet.
        with contextlib.suppress(psutil.NoSuchProcess, StopIteration, KeyError):
            victim = jvm_of(installation, "spark-batch") if name == "java" else installation.process_of(name)
            kill(installation, victim)
            kills.append(name)
    return kills


def _until_over(installation: Installation, run_id: str) -> tuple[list[str], float]:
    """Wait until the run is over; return what is wrong, and how long it took."""
    until_database_answers(installation)
    installation.until_ready()
    began = time.monotonic()
    found = None
    while time.monotonic() - began < COMPLETED_SECONDS:
        found = installation.get(f"archive/{run_id}/")
        if found["ended_at"] is not None:
            return ([] if found["state"] == "succeeded" else [f"the run is {found}"]), time.monotonic() - began
        time.sleep(1)
    return [f"not done within {COMPLETED_SECONDS} s: {found}"], time.monotonic() - began


RUNS: dict[str, Callable[[int], Result]] = {f"{FAMILY} {NAME}": run}
