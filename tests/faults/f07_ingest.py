"""F7 and F9 while a file is being taken in: it is taken whole and once all the same."""

import json
import signal
import time
from collections.abc import Callable

import psutil

from tests.faults.kills import jvm_of, kill, python_workers_of, until_database_answers, until_restarted
from tests.faults.run import Fault, Scene
from tests.whole_system.installation import until

LINES = 10_000
TAKEN_SECONDS = 240
# What a file's fault does to redelivery beside it.
BACK_SECONDS = 20

JOB = "SELECT count(*) FROM run WHERE kind = 'ingest' AND state = 'running'"
_FILE = "SELECT state, accepted, duplicates, rejected, error FROM source_file WHERE source_id = %s"
_MESSAGES = """
SELECT count(*), count(DISTINCT envelope.message_id), count(body.id), count(message.id)
FROM envelope JOIN address ON address.id = intake_address_id LEFT JOIN body ON body.id = envelope.id
     LEFT JOIN message ON message.id = envelope.id WHERE name = %s
"""
_LEFT = "SELECT count(*) FROM staged_message WHERE address = %s"


def taking_a_file(what: str, strike_it: Callable[[Scene], None]) -> Callable[[Scene], str]:
    """Return a strike: drop a file, strike while its job runs, and wait until it is taken."""

    def strike(scene: Scene) -> str:
        address = f"parking.{scene.destination.name}"
        source = _drop(scene, address)
        until(lambda: scene.installation.rows(JOB) != [(0,)], 120, lambda: "no ingest job began")
        time.sleep(scene.dice.uniform(0.0, 1.5))
        strike_it(scene)
        until_database_answers(scene.installation)
        is_taken = [("taken", LINES, 1, 1, None)]
        until(
            lambda: scene.installation.rows(_FILE, [source]) == is_taken,
            TAKEN_SECONDS,
            lambda: f"the file: {scene.installation.rows(_FILE, [source])}",
        )
        there = scene.installation.rows(_MESSAGES, [address])
        assert there == [(LINES, LINES, LINES, LINES)], f"of {LINES} lines there are {there}"
        assert scene.installation.rows(_LEFT, [address]) == [(0,)], "staged rows are left over"
        return f"{what} while a file of {LINES} lines was taken in; taken once"

    return strike


def _drop(scene: Scene, address: str) -> int:
    inbox = scene.installation.home / "inbox" / scene.destination.name
    inbox.mkdir(parents=True)
    lines = [json.dumps({"address": address, "payload": f"line {n}", "message_id": f"{n}"}) for n in range(LINES)]
    draft = inbox / "lines.ndjson.part"
    draft.write_text("\n".join([*lines, lines[0], "{ not json", ""]))
    draft.rename(inbox / "lines.ndjson")
    config = {"path": str(inbox)}
    source = {"name": scene.destination.name, "kind": "directory", "config": config}
    return int(scene.installation.post("sources/", source)["id"])


def _kill_jvm(scene: Scene) -> None:
    kill(scene.installation, jvm_of(scene.installation, "spark-batch"))


def _kill_python(scene: Scene) -> None:
    for victim in python_workers_of(scene.installation, "spark-batch"):
        kill(scene.installation, victim)


def _kill_main(scene: Scene) -> None:
    kill(scene.installation, scene.installation.process_of("spark-batch"))


def _stop_database(scene: Scene) -> None:
    former = scene.installation.pid_of("postgres")
    kill(scene.installation, psutil.Process(former), signal.SIGQUIT)
    until_restarted(scene.installation, "postgres", former)


FAULTS = (
    Fault("F7", "JVM, ingest", taking_a_file("kill -9 of the JVM", _kill_jvm), BACK_SECONDS),
    Fault("F7", "Python workers, ingest", taking_a_file("kill -9 of the Python workers", _kill_python), BACK_SECONDS),
    Fault("F7", "worker, ingest", taking_a_file("kill -9 of the worker", _kill_main), BACK_SECONDS),
    Fault(
        "F9", "immediate stop, ingest", taking_a_file("immediate stop of the database", _stop_database), BACK_SECONDS
    ),
)
