"""Conformance AMPS-1 to AMPS-13, vectors AMPS-a to AMPS-f, R7: through the guard and the real server."""

import signal
import statistics
import threading
import time
from typing import Any

import pytest
from django.db import connection

from poisonguard.guard import SKIPPED
from tests.poisonguard.conftest import MakeGuard, Service, StartConsumer, until
from tests.poisonguard.holding_proxy import HoldingProxy

SOURCE = "orders.eu"
FATAL = "Fatal error."


def refuse_thirteens(number: int) -> int:
    """Fail as the sample of AMPS does (AMPS-11)."""
    if number % 13 == 0:
        raise ValueError(f"{number} is unlucky")
    return number


def fails(payload: Any) -> None:
    """Fail, whatever it is."""
    raise ValueError("it cannot be read")


def takes(payload: Any) -> Any:
    """Take whatever it is."""
    return payload


def listed(service: Service, source: str = SOURCE) -> set[str]:
    """Return the bookmarks that are listed."""
    return {bookmark for bookmark, entry in service.entries(source).items() if entry["is_listed"]}


@pytest.mark.conformance("AMPS-a")
def test_amps_a_a_consumer_that_refuses_every_thirteenth_lists_exactly_those(
    service: Service, make_guard: MakeGuard
) -> None:
    guard = make_guard(SOURCE).start()
    refused = []
    for number in range(41):
        try:
            assert guard.handle(number, number, refuse_thirteens) == number
        except ValueError:
            refused.append(number)
    until(lambda: listed(service) == {"0", "13", "26", "39"}, lambda: listed(service))
    assert refused == [0, 13, 26, 39]
    assert service.entries(SOURCE)["13"]["why"] == "13 is unlucky"


@pytest.mark.conformance("AMPS-b")
def test_amps_b_a_second_consumer_skips_what_the_first_met(service: Service, start_consumer: StartConsumer) -> None:
    first = start_consumer(SOURCE)
    assert first.ask("handle 13 fail") == "ValueError it cannot be read"
    service.until_entry(SOURCE, "13", is_listed=True)
    second = start_consumer(SOURCE)
    assert second.ask("handle 13 fail") == "skipped"
    assert second.ask("handle 14 ok") == "handled"


@pytest.mark.conformance("AMPS-b")
def test_amps_b_a_running_consumer_skips_within_a_second_what_another_reports(
    service: Service, start_consumer: StartConsumer
) -> None:
    first, second = start_consumer(SOURCE), start_consumer(SOURCE)
    waits = []
    for bookmark in range(7):
        second.tell(f"wait {bookmark}")
        began = time.time()
        assert first.ask(f"handle {bookmark} fail").startswith("ValueError")
        waits.append(float(second.answer()) - began)
        assert second.ask(f"handle {bookmark} fail") == "skipped"
    print(f"from the failure in one process to the skip in another: {statistics.median(waits) * 1000:.0f} ms")
    assert statistics.median(waits) < 1.0


@pytest.mark.conformance("AMPS-c")
@pytest.mark.parametrize("how", ["exit", "os_exit", "kill", "segfault", "abort"])
def test_amps_c_a_consumer_that_dies_in_its_handler_is_reported_as_a_fatal_error(
    how: str, service: Service, start_consumer: StartConsumer
) -> None:
    dying = start_consumer(SOURCE, preset="amps")
    assert dying.ask("handle 4 ok") == "handled"
    assert dying.ask(f"handle 5 {how}") == ""
    dying.process.wait()
    successor = start_consumer(SOURCE, preset="amps")
    entry = service.until_entry(SOURCE, "5", is_listed=True)
    assert (entry["why"], entry["is_fatal"], entry["crashes"], entry["failures"]) == (FATAL, True, 1, 0)
    assert successor.ask("wait 5")
    assert successor.ask("handle 5 kill") == "skipped"
    assert set(service.entries(SOURCE)) == {"5"}


@pytest.mark.conformance("AMPS-c")
def test_amps_c_a_sigkill_from_outside_is_reported_at_the_next_start(
    service: Service, start_consumer: StartConsumer
) -> None:
    killed = start_consumer(SOURCE)
    assert killed.ask("handle 5 hang") == "handling"
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait()
    start_consumer(SOURCE)
    entry = service.until_entry(SOURCE, "5")
    assert (entry["is_listed"], entry["crashes"], entry["crash_limit"]) == (False, 1, 2)


@pytest.mark.conformance("R7")
def test_r7_two_crashes_list_by_default_so_that_a_rolling_restart_lists_nobody(
    service: Service, start_consumer: StartConsumer
) -> None:
    for crashes in (1, 2):
        consumer = start_consumer(SOURCE)
        assert consumer.ask("handle 5 kill") == ""
        consumer.process.wait()
        start_consumer(SOURCE).ask("close")
        service.until_entry(SOURCE, "5", crashes=crashes, is_listed=crashes == 2)
    assert start_consumer(SOURCE).ask("handle 5 kill") == "skipped"


@pytest.mark.conformance("AMPS-d")
@pytest.mark.parametrize("how", ["close", "close_and_exit", "interrupt"])
def test_amps_d_a_consumer_that_was_closed_or_interrupted_is_not_reported(
    how: str, service: Service, start_consumer: StartConsumer
) -> None:
    closing = start_consumer(SOURCE, preset="amps")
    closing.ask(f"handle 5 {how}")
    closing.end()
    start_consumer(SOURCE, preset="amps").ask("close")
    assert service.entries(SOURCE) == {}


@pytest.mark.conformance("AMPS-d")
def test_amps_d_a_listed_bookmark_that_was_skipped_is_not_reported_when_the_consumer_dies(
    service: Service, start_consumer: StartConsumer
) -> None:
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "5", "why": "known"})
    dying = start_consumer(SOURCE, preset="amps")
    assert dying.ask("handle 5 kill") == "skipped"
    dying.end()
    start_consumer(SOURCE, preset="amps").ask("close")
    entry = service.entries(SOURCE)["5"]
    assert (entry["why"], entry["crashes"]) == ("known", 0)


@pytest.mark.conformance("AMPS-e")
def test_amps_e_what_is_reported_while_the_list_is_loading_is_in_force_before_any_message_is_handled(
    service: Service, make_guard: MakeGuard, start_consumer: StartConsumer
) -> None:
    # More than the buffers between the server and a reader that has stopped reading: the server is not through.
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO poison_entry (source, bookmark, why, reported_by, is_listed)"
            " SELECT %s, 'old ' || n, repeat('x', 1000), 'test', TRUE FROM generate_series(1, 20000) AS n",
            [SOURCE],
        )
    proxy = HoldingProxy(service.web.port, mark=b"old 1")
    loading = make_guard(SOURCE, url=f"http://127.0.0.1:{proxy.port}")
    handled: list[object] = []

    def load_and_handle() -> None:
        loading.start()
        handled.extend(loading.handle(bookmark, bookmark, takes) for bookmark in ("8", "9", "old 7"))

    consuming = threading.Thread(target=load_and_handle)
    consuming.start()
    assert proxy.is_reached.wait(30)
    assert start_consumer(SOURCE).ask("handle 8 fail").startswith("ValueError")
    service.until_entry(SOURCE, "8", is_listed=True)
    assert handled == []
    proxy.open()
    consuming.join(30)
    proxy.close()
    assert handled == [SKIPPED, "9", SKIPPED]


@pytest.mark.conformance("AMPS-f", "R7")
def test_amps_f_a_released_bookmark_is_handled_again_by_every_consumer(
    service: Service, start_consumer: StartConsumer
) -> None:
    consumers = [start_consumer(SOURCE) for _ in range(2)]
    assert consumers[0].ask("handle 13 fail").startswith("ValueError")
    for consumer in consumers:
        assert consumer.ask("wait 13")
        assert consumer.ask("handle 13 ok") == "skipped"
    service.release(service.until_entry(SOURCE, "13", is_listed=True))
    for consumer in consumers:
        assert consumer.ask("free 13")
        assert consumer.ask("handle 13 ok") == "handled"
