"""The guard while the server goes away, comes back, stops or revokes its token."""

import logging
from typing import Any

import pytest

from poisonadmin.store.models.access import ApiToken
from poisonadmin.system.commands.accounts import create_token, revoke_token
from poisonguard.errors import ListNotLoaded, Undecided
from poisonguard.guard import SKIPPED
from tests.poisonguard.conftest import MakeGuard, Service, StartConsumer, closed_port, until

SOURCE = "orders.eu"


def fails(payload: Any) -> None:
    """Fail, whatever it is."""
    raise ValueError("it cannot be read")


def takes(payload: Any) -> Any:
    """Take whatever it is."""
    return payload


def reports_on_disk(service: Service) -> list[str]:
    """Return the names of the reports that wait in the journals' directory."""
    return [path.name for path in service.journal_dir.glob("*/*/report-*.json")]


def test_a_report_outlives_the_server_s_absence_and_the_handler_never_waits(
    service: Service, make_guard: MakeGuard
) -> None:
    guard = make_guard(SOURCE, decision_seconds=0.01).start()
    service.web.stop()
    with pytest.raises(ValueError, match="read"):
        guard.handle("1", "", fails)
    assert reports_on_disk(service)
    # It is neither handled in a loop nor skipped on our own authority.
    with pytest.raises(Undecided):
        guard.handle("1", "", fails)
    assert guard.handle("2", "x", takes) == "x"
    service.web.start()
    until(lambda: guard.is_listed("1"))
    assert guard.handle("1", "", fails) is SKIPPED
    assert service.entries(SOURCE)["1"]["failures"] == 1
    until(lambda: not reports_on_disk(service))


def test_a_consumer_that_dies_while_the_server_is_away_leaves_its_reports_to_the_next(
    service: Service, start_consumer: StartConsumer
) -> None:
    dying = start_consumer(SOURCE)
    service.web.stop()
    assert dying.ask("handle 1 fail").startswith("ValueError")
    assert dying.ask("handle 2 kill") == ""
    dying.process.wait()
    service.web.start()
    start_consumer(SOURCE)
    service.until_entry(SOURCE, "1", failures=1, crashes=0)
    service.until_entry(SOURCE, "2", failures=0, crashes=1)
    until(lambda: not reports_on_disk(service))


def test_what_is_released_and_listed_while_there_is_no_stream_is_known_after_it(
    service: Service, make_guard: MakeGuard
) -> None:
    for bookmark in ("1", "2"):
        service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": bookmark, "why": "spoilt"})
    guard = make_guard(SOURCE).start()
    service.web.stop()
    assert guard.is_listed("1")
    service.web.start()
    service.release(service.entries(SOURCE)["1"])
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "3", "why": "spoilt"})
    until(lambda: [guard.is_listed(bookmark) for bookmark in "123"] == [False, True, True])


def test_a_stream_ends_when_its_token_is_revoked(service: Service, make_guard: MakeGuard) -> None:
    owner = ApiToken.objects.get().user
    made = create_token(owner, "short-lived", scopes=["ingest"], by="test")
    guard = make_guard(SOURCE, token=made.text).start()
    revoke_token(made.id, by="test")
    until(lambda: guard._listing.refusal is not None)
    assert "401" in str(guard._listing.refusal)


def test_the_server_stops_at_once_however_many_follow_it(service: Service, make_guard: MakeGuard) -> None:
    guards = [make_guard(SOURCE).start() for _ in range(3)]
    service.web.stop()
    assert "timeout graceful shutdown exceeded" not in service.web.log
    service.web.start()
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "1", "why": "spoilt"})
    until(lambda: all(guard.is_listed("1") for guard in guards))


def test_the_token_is_never_logged(service: Service, make_guard: MakeGuard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    guard = make_guard(SOURCE, url=f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(ListNotLoaded):
        guard.start(0.3)
    assert "cannot be followed" in caplog.text
    assert service.token not in caplog.text + repr(guard) + repr(vars(guard))
