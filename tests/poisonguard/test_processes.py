"""The guard in threads, forks and nodes."""

import threading
from typing import Any

import pytest

from poisonadmin.store.models.poison import Consumer
from tests.poisonguard.conftest import MakeGuard, Service, StartConsumer, until

SOURCE = "orders.eu"


def fails(payload: Any) -> None:
    """Fail, whatever it is."""
    raise ValueError("it cannot be read")


def takes(payload: Any) -> Any:
    """Take whatever it is."""
    return payload


def test_many_threads_share_a_guard(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    handled: list[object] = []

    def consume(first: int) -> None:
        handled.extend(guard.handle(number, number, takes) for number in range(first, first + 500))

    threads = [threading.Thread(target=consume, args=(first,)) for first in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(handled, key=str) == sorted(range(4000), key=str)
    assert len(list(service.journal_dir.glob("*/*/journal-*"))) <= 8


def test_a_forked_child_has_a_guard_of_its_own(service: Service, start_consumer: StartConsumer) -> None:
    parent = start_consumer(SOURCE, preset="amps", name="billing")
    assert parent.ask("fork 5 fail").startswith("ValueError")
    service.until_entry(SOURCE, "5", is_listed=True)
    assert parent.ask("wait 5")
    assert parent.ask("fork 6 kill") == "died"
    service.until_entry(SOURCE, "6", crashes=1)
    assert parent.ask("handle 7 ok") == "handled"
    names = set(Consumer.objects.values_list("name", flat=True))
    assert "billing" in names
    assert all(name == "billing" or name.startswith("billing-") for name in names)


def test_a_handler_that_forks_and_lets_the_child_return_is_still_its_parent_s(
    service: Service, start_consumer: StartConsumer
) -> None:
    parent = start_consumer(SOURCE, preset="amps")
    assert parent.ask("handle 5 fork_and_die") == ""
    parent.process.wait()
    start_consumer(SOURCE, preset="amps")
    assert service.until_entry(SOURCE, "5", is_listed=True)["crashes"] == 1


def test_a_consumer_is_a_node_with_its_version_and_what_it_is_handling(
    service: Service, start_consumer: StartConsumer
) -> None:
    consumer = start_consumer(SOURCE, name="billing-1", version="2.7.1")
    until(lambda: Consumer.objects.filter(name="billing-1").exists())
    row = Consumer.objects.get()
    assert (row.source, row.version, row.pid, row.ended_at) == (SOURCE, "2.7.1", consumer.process.pid, None)
    assert consumer.ask("handle 5 hang") == "handling"
    until(lambda: Consumer.objects.get().bookmark == "5")


def test_a_consumer_that_is_closed_has_ended(service: Service, start_consumer: StartConsumer) -> None:
    consumer = start_consumer(SOURCE, name="billing-1")
    assert consumer.ask("close") == "closed"
    assert Consumer.objects.get().ended_at is not None


def test_two_guards_of_different_sources_share_a_process_and_a_directory(
    service: Service, make_guard: MakeGuard
) -> None:
    orders, bills = make_guard("orders").start(), make_guard("bills").start()
    with pytest.raises(ValueError, match="read"):
        orders.handle("1", "", fails)
    until(lambda: orders.is_listed("1"))
    assert bills.handle("1", "x", takes) == "x"
