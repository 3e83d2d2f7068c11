"""Conformance AMPS-3 to AMPS-13, one by one, through the guard and the real server."""

import sys
import threading
from typing import Any

import pytest

from poisonguard.guard import SKIPPED, Guard, Skip
from tests.poisonguard.conftest import MakeGuard, Service
from tests.poisonguard.holding_proxy import HoldingProxy

SOURCE = "orders.eu"
FATAL = "Fatal error."


def fails(payload: Any) -> None:
    """Fail, whatever it is."""
    raise ValueError("it cannot be read")


def takes(payload: Any) -> Any:
    """Take whatever it is."""
    return payload


@pytest.mark.conformance("AMPS-3")
def test_amps_3_an_entry_says_the_exception_s_text(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    with pytest.raises(ValueError, match="it cannot be read"):
        guard.handle("1", "", fails)
    assert service.until_entry(SOURCE, "1")["why"] == "it cannot be read"


@pytest.mark.conformance("AMPS-5")
def test_amps_5_nothing_is_handled_before_the_list_is_complete(service: Service, make_guard: MakeGuard) -> None:
    proxy = HoldingProxy(service.web.port)
    guard = make_guard(SOURCE, url=f"http://127.0.0.1:{proxy.port}")
    starting = threading.Thread(target=guard.start)
    starting.start()
    assert proxy.is_reached.wait(30)
    assert starting.is_alive()
    proxy.open()
    starting.join(30)
    proxy.close()
    assert guard.handle("1", "x", takes) == "x"


@pytest.mark.conformance("AMPS-6")
def test_amps_6_the_failing_consumer_waits_for_its_own_echo(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE, decision_seconds=30).start()
    with pytest.raises(ValueError, match="read"):
        guard.handle("1", "", fails)
    assert not guard.is_listed("1")
    # It comes back at once: it is neither handled a second time nor skipped before the list says so.
    assert guard.handle("1", "", fails) is SKIPPED
    assert service.entries(SOURCE)["1"]["failures"] == 1


@pytest.mark.conformance("AMPS-7")
def test_amps_7_a_listed_bookmark_is_skipped_and_the_caller_is_told(service: Service, make_guard: MakeGuard) -> None:
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "7", "why": "spoilt"})
    skipped: list[Skip] = []
    guard = make_guard(SOURCE, on_skip=skipped.append).start()
    assert guard.handle("7", "body", fails) is SKIPPED
    assert skipped == [Skip("7", "body", "spoilt")]


@pytest.mark.conformance("AMPS-8")
def test_amps_8_an_exception_is_raised_again_as_it_is(make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    error = KeyError("total")

    def raises(_: object) -> None:
        raise error

    with pytest.raises(KeyError) as raised:
        guard.handle("8", None, raises)
    assert raised.value is error


@pytest.mark.conformance("AMPS-9")
def test_amps_9_a_sys_exit_inside_the_handler_is_reported_at_once(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE, preset="amps").start()
    with pytest.raises(SystemExit):
        guard.handle("9", None, lambda _: sys.exit(3))
    assert service.entries(SOURCE)["9"]["why"] == FATAL


@pytest.mark.conformance("AMPS-10")
def test_amps_10_close_clears_what_is_being_handled(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE, preset="amps").start()

    def closes_and_exits(_: object) -> None:
        guard.close()
        sys.exit(3)

    with pytest.raises(SystemExit):
        guard.handle("10", None, closes_and_exits)
    make_guard(SOURCE).start().close()
    assert service.entries(SOURCE) == {}


@pytest.mark.conformance("AMPS-12")
def test_amps_12_a_new_consumer_needs_no_state_of_its_own(
    service: Service, make_guard: MakeGuard, tmp_path: Any
) -> None:
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "12", "why": "spoilt"})
    fresh: Guard = make_guard(SOURCE, journal_dir=str(tmp_path / "elsewhere")).start()
    assert fresh.handle("12", None, fails) is SKIPPED


@pytest.mark.conformance("AMPS-13")
def test_amps_13_the_first_failure_is_enough(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    with pytest.raises(ValueError, match="read"):
        guard.handle("13", None, fails)
    entry = service.until_entry(SOURCE, "13", is_listed=True)
    assert (entry["failures"], entry["failure_limit"]) == (1, 1)
