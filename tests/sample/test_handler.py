"""The sample's handler: each event that kills it does so in its own way, the others do not. Each in a process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from poisonadmin.embedded.plan import DEMO, UP
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from sample import load
from sample.configuration import CRASHING, HANDLER, HANDLERS, INDEXED
from sample.handlers import search_index
from tests.sample.test_load import NOW

# With the limits that the sample's destination has.
CALL = """
import resource, sys, types
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[4]) << 20,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[5]), int(sys.argv[5]) + 1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path.insert(0, sys.argv[1])
from search_index import handle
address, attempt = sys.argv[2], int(sys.argv[3])
message = types.SimpleNamespace(
    id=7, message_id="m-7", address=address, attempt=attempt, payload=b'{"sender": 1, "repository": 2}')
handle(message)
print("done")
"""


def called(event: str, attempt: int = 1, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    """Call the handler once in a process of its own."""
    limits = [str(HANDLER["memory_mb"]), "1"]  # the kernel counts whole seconds
    command = [sys.executable, "-c", CALL, str(HANDLERS), f"github.{event}", str(attempt), *limits]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.parametrize(
    ("event", "status", "said"),
    [
        ("commit_comment", -signal.SIGSEGV, "libstem"),
        ("deploy_key", 3, "license check"),
        ("meta", -signal.SIGABRT, "Assertion"),
        ("public", -signal.SIGXCPU, "matching"),
        ("fork", -signal.SIGKILL, "merging"),
    ],
)
def test_an_event_kills_the_process_in_its_own_way_and_says_something_before(
    event: str, status: int, said: str
) -> None:
    done = called(event)
    assert done.returncode == status
    assert f"indexing {event} m-7, attempt 1" in done.stdout
    assert said in done.stdout


def test_an_event_takes_all_memory() -> None:
    assert "MemoryError" in called("repository_import").stderr


def test_an_event_never_comes_back() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        called("status", seconds=2)


def test_a_fork_is_indexed_at_the_second_attempt() -> None:
    assert called("fork", attempt=2).stdout.endswith("done\n")


@pytest.mark.parametrize(
    ("event", "error"), [("gollum", "ValueError: no mapping"), ("ping", "RuntimeError: the index")]
)
def test_some_events_fail_in_the_ordinary_way(event: str, error: str) -> None:
    assert error in called(event).stderr
    assert called("ping", attempt=3).returncode == 0


@pytest.mark.parametrize("event", ["discussion", "label", "project_card"])
def test_the_others_are_indexed(event: str) -> None:
    assert called(event).returncode == 0


def test_every_event_that_is_trouble_is_sent_there() -> None:
    assert set(search_index._TROUBLES) < set(INDEXED)


def test_the_demo_lets_the_handler_be_imported_beside_those_that_are_configured() -> None:
    assert DEMO.prepared({})["POISONADMIN_HANDLER_PATH"] == str(HANDLERS)
    assert DEMO.prepared({"POISONADMIN_HANDLER_PATH": "/srv/h"})["POISONADMIN_HANDLER_PATH"] == f"/srv/h:{HANDLERS}"
    assert "POISONADMIN_HANDLER_PATH" not in UP.prepared({})


@pytest.mark.django_db
def test_its_events_go_to_the_handler_where_it_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", os.pathsep.join([str(Path(__file__).parent), str(HANDLERS)]))
    load.load_once(NOW)
    crashing = Destination.objects.get(name=f"sample-{CRASHING}")
    assert (crashing.kind, json.loads(json.dumps(crashing.config))) == ("handler", HANDLER)
    sent = set(Message.objects.filter(address__destination=crashing).values_list("address__name", flat=True).distinct())
    assert sent == {f"github.{event}" for event in INDEXED}


@pytest.mark.django_db
def test_without_the_handler_its_events_go_where_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POISONADMIN_HANDLER_PATH", raising=False)
    load.load_once(NOW)
    assert not Destination.objects.filter(kind="handler").exists()
    assert Message.objects.get(address__name="github.meta").address.destination.name == "sample-healthy"
