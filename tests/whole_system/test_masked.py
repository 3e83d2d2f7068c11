"""What messages hold is in no log, event log of Spark, argument of a task, command line or environment."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from poisonadmin.core.domain.secret_settings import REDIS_URL, secret_setting
from tests.masking.planted import CANARY
from tests.whole_system import searched_places as places
from tests.whole_system.handler_destination import HANDLERS, HandlerDestination
from tests.whole_system.http_destination import PROMPT
from tests.whole_system.installation import Installation, until
from tests.whole_system.test_secrets import echoing

pytestmark = pytest.mark.long
HELD = CANARY.encode()
REPORT = {"kind": "failures", "format": "xlsx", "columns": ["id", "error_message", "payload", "header.X-Customer"]}


class _Listening(threading.Thread):
    """Keeps every command that reaches the queue's server, its values included."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.commands: list[str] = []
        self._monitor = redis.Redis.from_url(url).monitor()
        self._monitor.__enter__()
        self.start()

    def run(self) -> None:
        with contextlib.suppress(redis.ConnectionError):  # at the installation's end
            for command in self._monitor.listen():
                self.commands.append(command["command"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that says all that it can, and whose Spark writes its event log."""
    home = tmp_path_factory.mktemp("masked")
    (home / "events").mkdir()
    events = {"enabled": "true", "dir": (home / "events").as_uri(), "compress": "false", "rolling.enabled": "false"}
    found = Installation(
        home,
        POISONADMIN_HANDLER_PATH=str(HANDLERS),
        POISONADMIN_LOG_LEVEL="DEBUG",
        JAVA_TOOL_OPTIONS=" ".join(f"-Dspark.eventLog.{name}={value}" for name, value in events.items()),
    )
    try:
        found.until_ready()
        yield found
    finally:
        found.stop()


def ended(running: Installation, path: str, body: Any) -> Any:
    """Request long work; return it once it has ended well."""
    one = f"{path}{running.post(path, body)['id']}/"
    until(lambda: running.get(one)["ended_at"] is not None, 180, lambda: running.output[-3000:])
    found = running.get(one)
    assert (found["state"], found["error"]) == ("succeeded", None)
    return found


def test_what_messages_hold_is_nowhere_but_where_they_are_stored(running: Installation) -> None:
    listening = _Listening(secret_setting(running.environment, REDIS_URL))
    headers = {"X-Customer": CANARY, "traceparent": f"00-{CANARY}"}
    with echoing() as echo:
        running.post("destinations/", {"name": "echo", "kind": "http", "config": {"url": echo}})
        policy = {
            "match": "echo.#",
            "settings": PROMPT | {"business_keys": ["customer=$.customer"]},
            "destination": "echo",
        }
        running.post("policies/", policy)
        body = {"address": "echo.orders", "payload": {"customer": CANARY, "open": "plain"}, "headers": headers}
        failing = [running.post("messages/", body)["id"] for _ in range(2)]
        dying = HandlerDestination.create(running, "dying")
        failing.append(str(dying.send(f"kill {CANARY}", headers=headers | {"notes": str(dying.notes)})))
        stopped = "SELECT count(*) FROM message WHERE state = 'NDLV'"
        until(lambda: running.rows(stopped)[0][0] == 3, 120, lambda: running.output[-3000:])
    errors = running.rows("SELECT error_message, response, output FROM attempt")
    assert sum(CANARY in f"{one}" for row in errors for one in row) >= 3, errors
    for query in ("payload:plain", "payload.$.open:plain", "header.X-Open:plain"):
        ended(running, "searches/", {"q": query})
    report = ended(running, "reports/", REPORT)
    sides = {"selection": "echo.#", "against": "dying.#"}
    ended(running, "comparisons/", {side: {"filter": {"address": match}} for side, match in sides.items()})
    patch = {"json_patch": [{"op": "add", "path": "/more", "value": CANARY}]}
    running.post(f"messages/{failing[0]}/patch/", patch | {"reason": "r"})
    assert running.ask("GET", f"reports/{report['id']}/download/").status == 200

    home = running.home
    stored = ("archive/", "reports/", "dying.notes")
    found = {name: data for name, data in places.files(home) if not name.startswith(stored)}
    logs = [name for name in found if name.startswith("events/")]
    assert logs
    assert sum(found[name].count(b"SparkListenerJobEnd") for name in logs) >= 5
    assert "output.log" in found
    assert [name for name, data in found.items() if HELD in data] == []
    assert [place for place, data in places.command_lines_and_environments(running) if HELD in data] == []
    assert any("celery" in one for one in listening.commands)
    assert [one for one in listening.commands if CANARY in one] == []
