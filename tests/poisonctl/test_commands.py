"""The command line against a web process: what it prints, what it does, and how it exits."""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from tests.fixtures.api import Caller, Web, caller_of, take_dead
from tests.fixtures.delivery import answer, claim, enqueue, make_destination

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


@pytest.fixture
def somebody(transactional_db: None) -> Caller:
    return caller_of("admin")


@pytest.fixture
def poisonadmin(shared_web: Web, somebody: Caller) -> Iterator[Command]:
    """Run the command with a token; `begin` does not wait for it."""
    begun: list[subprocess.Popen[str]] = []

    def run(*arguments: str, begin: bool = False, given: str = "", **more: str) -> Any:
        own = {"POISONADMIN_URL": f"http://{shared_web[0]}", "POISONADMIN_TOKEN": str(somebody.token)} | more
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POISONADMIN_")}
        command = [sys.executable, "-m", "poisonctl", *arguments]
        if begin:
            begun.append(subprocess.Popen(command, env=kept | own, stdout=subprocess.PIPE, text=True))
            return begun[-1]
        return subprocess.run(command, env=kept | own, input=given, capture_output=True, text=True, check=False)

    yield run
    for one in begun:
        one.kill()
        one.communicate()


def test_a_night(poisonadmin: Command, tmp_path: Path) -> None:
    make_destination(max_delivery_attempts=1)
    ids = enqueue(3)
    claim()
    answer(ids, "failed", error_class="IOError")
    settle()
    [group] = FailureGroup.objects.all()

    listed = poisonadmin("groups")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[0].split() == ["ID", "COUNTS", "TITLE", "ADDRESSES"]
    assert f"{group.id}" in listed.stdout
    assert "NDLV=3" in listed.stdout
    found = [json.loads(line) for line in poisonadmin("search", f"group:{group.id}", "-o", "json").stdout.splitlines()]
    assert sorted(int(one["id"]) for one in found) == ids
    shown = poisonadmin("show", str(ids[0]))
    assert "address: orders.eu" in shown.stdout
    assert "enqueued" in shown.stdout
    previewed = poisonadmin("approve", "--group", str(group.id), "--reason", "INC-42", "--dry-run")
    assert (previewed.returncode, Message.objects.filter(state="NDLV").count()) == (0, 3)
    assert "accepted: 3" in previewed.stdout

    approving = poisonadmin("approve", "-q", f"group:{group.id}", "--reason", "INC-42", "--wait", begin=True)
    deadline = time.monotonic() + 60
    while Message.objects.filter(state="TBDL").count() < 3 and time.monotonic() < deadline:
        carry_on()
        time.sleep(0.1)
    claim()
    answer(ids[:2])
    answer(ids[2:], "failed", error_class="IOError")
    settle()
    carry_on()
    told, _ = approving.communicate(timeout=60)
    assert approving.returncode == 1, told
    assert "state: completed" in told
    assert "delivered=2" in told
    assert "failed_same=1" in told
    operation = told.split()[1]
    assert "count: 3" in poisonadmin("ledger", operation).stdout
    assert len(poisonadmin("ledger", operation, "--csv").stdout.splitlines()) == 4

    failed = poisonadmin("fail", "-f", "state=NDLV", "-f", "address=orders.eu", "--reason", "too old")
    assert failed.returncode == 0
    carry_on()
    assert sorted(Message.objects.values_list("state", flat=True)) == ["DLVD", "DLVD", "FAIL"]
    written = tmp_path / "failures.csv"
    made = poisonadmin("report", "failures", "-q", "state:FAIL", "--format", "json", "-O", str(written))
    assert made.returncode == 0, made.stderr
    assert [row["state"] for row in json.loads(written.read_text())["rows"]] == ["FAIL"]


def test_configuration_as_code(poisonadmin: Command, tmp_path: Path) -> None:
    make_destination()
    Destination.objects.update(secrets={"X-Key": "planted-canary"})
    exported = poisonadmin("config", "export")
    document = yaml.safe_load(exported.stdout)
    assert document["destinations"][0]["secrets"] == {"X-Key": {"$env": "DESTINATIONS_SHOP_X_KEY"}}
    file = tmp_path / "configuration.yml"
    file.write_text(exported.stdout)
    assert poisonadmin("config", "diff", str(file)).stdout == "Nothing differs.\n"

    document["policies"][0]["settings"]["max_delivery_attempts"] = 7
    document["destinations"].append(
        {"name": "crm", "kind": "http", "config": {"url": "http://127.0.0.1:9/"}, "secrets": {"X": {"$env": "CRM"}}}
    )
    file.write_text(yaml.safe_dump(document))
    differs = poisonadmin("config", "apply", "--check", str(file), CRM="of the environment")
    assert differs.returncode == 1
    assert "create  destinations/crm" in differs.stdout
    assert "policies/orders.#" in differs.stdout
    assert not Destination.objects.filter(name="crm").exists()
    assert poisonadmin("config", "apply", str(file), CRM="of the environment").returncode == 0
    assert Destination.objects.get(name="crm").secrets == {"X": "of the environment"}
    assert Destination.objects.get(name="shop").secrets == {"X-Key": "planted-canary"}
    anew = {"DESTINATIONS_SHOP_X_KEY": "a new one"}
    given = poisonadmin("config", "apply", "--secrets", "-", given=file.read_text(), **anew)
    assert given.returncode == 0, given.stderr
    assert Destination.objects.get(name="shop").secrets == {"X-Key": "a new one"}

    document["policies"][0]["settings"] = {"no_such": 1}
    refused = poisonadmin("config", "apply", "-", given=yaml.safe_dump(document))
    assert refused.returncode == 3
    assert "policies/orders.#: " in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "more", "status", "says"),
    [
        (["groups"], {"POISONADMIN_TOKEN": ""}, 3, "Set POISONADMIN_TOKEN"),
        (["groups"], {"POISONADMIN_TOKEN": "pa_nonsense"}, 3, "authentication_failed"),
        (["groups"], {"POISONADMIN_URL": "http://127.0.0.1:9"}, 4, "does not answer"),
        (["groups"], {"POISONADMIN_URL": "nonsense"}, 4, "does not answer"),
        (["show", "99"], {}, 3, "not_found"),
        (["approve", "--reason", "x"], {}, 2, "Say which messages"),
        (["approve", "-f", "state", "--reason", "x"], {}, 2, "'state' is no NAME=VALUE"),
        (["approve", "-f", "stat=NDLV", "--reason", "x"], {}, 3, "stat"),
        (["config", "apply", "-"], {}, 2, "kinds of configuration"),
        (["groups"], {"POISONADMIN_TOKEN": "pa_one\npa_two"}, 3, "white space"),
        (["nonsense"], {}, 2, "No such command"),
    ],
)
def test_what_goes_wrong_is_said_and_has_a_status(
    poisonadmin: Command, arguments: list[str], more: dict[str, str], status: int, says: str
) -> None:
    done = poisonadmin(*arguments, **more)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_tail_prints_what_comes(poisonadmin: Command) -> None:
    take_dead("before")
    tail = poisonadmin("tail", "--every", "0.2", begin=True)
    came = []
    # Those that came before its first look are not printed.
    while not select.select([tail.stdout], [], [], 0.5)[0] and len(came) < 120:
        came.append(str(take_dead("orders.eu")))
    line = tail.stdout.readline().split()
    assert line[0] in came
    assert line[1:3] == ["NDLV", "orders.eu"]


def test_a_redirect_does_not_take_the_token_to_another_host(poisonadmin: Command) -> None:
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{server.server_address[1]}/taken")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = poisonadmin("groups", POISONADMIN_URL=f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (done.returncode, [path for path, _ in asked]) == (3, ["/api/v1/groups/?ordering=-undecided&limit=20"])
    assert "302" in done.stderr


@pytest.mark.parametrize("page", [b"<html>", b"{}", b"[]"])
def test_what_is_not_poisonadmin_is_no_difference(poisonadmin: Command, page: bytes) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = poisonadmin("groups", POISONADMIN_URL=f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (done.returncode, "Traceback" in done.stderr) == (4, False)
    assert "is it PoisonAdmin?" in done.stderr


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: !!binary eA==", "a: [", "\udcff"])
def test_a_file_that_is_no_document_is_refused(poisonadmin: Command, tmp_path: Path, text: str) -> None:
    file = tmp_path / "configuration.yml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = poisonadmin("config", "diff", str(file))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_a_time_in_a_file_is_the_text_of_the_api(poisonadmin: Command) -> None:
    rule = "rules: [{name: a, stage: after, match: {address: a.#}, action: {do: park}, ends_at: 2099-01-01T00:00:00Z}]"
    assert poisonadmin("config", "apply", "-", given=rule).returncode == 0


def test_help_needs_no_token(poisonadmin: Command) -> None:
    assert "config" in poisonadmin("--help", POISONADMIN_TOKEN="").stdout
    assert "--canary" in poisonadmin("approve", "--help", POISONADMIN_TOKEN="").stdout
