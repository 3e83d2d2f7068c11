"""`manage.py source`: a broker is added with its way back; a worker's checks are stood for."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundQueue
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.rule import PolicyRow
from tests.sources.checks import make_checks

URL = "amqp://rabbit.example.org"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISONADMIN_BROKER_PASSWORD", "canary")


def test_a_broker_is_added_with_its_way_back(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--username", "drain", "--return", "--confirm-within-ms", "60000"]
    call_command("source", "add", URL, "--queue", "orders.dlq", "--queue", "bills.dlq", *more)
    source, destination = Source.objects.get(), Destination.objects.get()
    assert (source.name, source.kind) == ("rabbit.example.org", "rabbitmq")
    assert source.config == {"url": URL, "queues": ["orders.dlq", "bills.dlq"]}
    assert destination.config == {"url": URL, "confirm_within_ms": 60_000}
    assert source.secrets == destination.secrets == {"username": "drain", "password": "canary"}
    assert list(PolicyRow.objects.values_list("match", "destination__name")) == [("#", "rabbit.example.org")]
    assert set(Audit.objects.values_list("actor", flat=True)) == {"command line"}
    call_command("source", "list")
    said = capsys.readouterr().out
    assert "rabbitmq\tamqp://rabbit.example.org\torders.dlq,bills.dlq\t-\t0\ton" in said
    assert "canary" not in said


def test_the_policy_covers_what_the_template_gives_or_what_is_named() -> None:
    add = ["source", "add", URL, "--queue", "dlq", "--username", "drain", "--return"]
    call_command(*add, "--name", "a", "--address", "rabbit.{original}")
    call_command(*add, "--name", "b", "--match", "orders.#", "--match", "bills.#")
    assert set(PolicyRow.objects.values_list("match", flat=True)) == {"rabbit.#", "orders.#", "bills.#"}
    with pytest.raises(CommandError, match=r"There is a policy orders\.# already"):
        call_command(*add, "--name", "c", "--match", "orders.#")
    with pytest.raises(CommandError, match="no pattern covers"):
        call_command(*add, "--name", "c", "--address", "rabbit-{original}")
    assert not Source.objects.filter(name="c").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["http://rabbit.example.org", "--queue", "a"], "a URL begins with one of amqp://"),
        ([URL], "queues: must be a list"),
        (["amqp://drain:canary@rabbit.example.org", "--queue", "a"], "put them in the secrets"),
        ([URL, "--queue", "a", "--match", "#"], "belong to --return"),
        (["kafka://k", "--queue", "a", "--readers", "3", "--username", "x"], "readers: unknown"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why) as refused:
        call_command("source", "add", *arguments)
    assert "canary" not in str(refused.value)
    assert not Source.objects.exists()


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    assert login["password"] == "canary"
    return BrokerCheckResult(7, [FoundQueue("orders.dlq", 7, "its name")] if purpose == "queues" else [])


@pytest.fixture
def worker(transactional_db: None) -> Any:
    """Answer checks meanwhile, as the io worker's tick does."""
    stopping = threading.Event()

    def answer() -> None:
        while not stopping.wait(0.05):
            make_checks(seen)
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    stopping.set()
    thread.join()


def test_a_broker_is_tested_and_its_queues_found(worker: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("source", "discover", URL, "--username", "drain")
    assert capsys.readouterr().out == "orders.dlq\t7\tits name\n"
    call_command("source", "add", URL, "--queue", "orders.dlq", "--username", "drain", "--name", "shop")
    capsys.readouterr()
    call_command("source", "test", "shop")
    assert capsys.readouterr().out == "Connected; 7 messages wait.\n"
