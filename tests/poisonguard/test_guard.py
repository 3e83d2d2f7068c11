"""The guard in trouble: without a server, in threads and forks, with a bad token, with a report that is refused."""

import logging
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from poisonadmin.operations import tokens
from poisonadmin.store.models import ApiToken, Consumer, Message
from poisonguard import SKIPPED, Guard, GuardError, ListNotLoaded, Refused, Undecided
from tests.poisonguard.conftest import MakeGuard, Service, StartConsumer, Web, closed_port, until

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


# --- the start ---


def test_nothing_is_handled_before_the_start_nor_after_the_end(make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE)
    with pytest.raises(GuardError, match="start"):
        guard.handle("1", "", takes)
    guard.start()
    guard.close()
    with pytest.raises(GuardError, match="closed"):
        guard.handle("1", "", takes)


def test_a_start_without_a_server_fails_or_goes_on_as_it_was_told(make_guard: MakeGuard) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(ListNotLoaded):
        make_guard(SOURCE, url=nowhere).start(0.1)
    assert make_guard(SOURCE, url=nowhere).start(0.1, or_else="go on").handle("1", "x", takes) == "x"


def test_a_start_waits_for_the_server_by_default(service: Service, make_guard: MakeGuard) -> None:
    service.web.stop()
    guard = make_guard(SOURCE)
    starting = threading.Thread(target=guard.start)
    starting.start()
    service.web.start()
    starting.join(60)
    assert guard.handle("1", "x", takes) == "x"


def test_a_guard_that_is_closed_while_it_waits_for_the_list_stops_waiting(make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE, url=f"http://127.0.0.1:{closed_port()}")
    errors: list[BaseException] = []

    def start() -> None:
        try:
            guard.start()
        except GuardError as error:
            errors.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    until(lambda: guard._place is not None)
    guard.close(0.1)
    starting.join(30)
    assert "closed" in str(errors[0])


@pytest.mark.parametrize("scopes", [[], ["read"]])
def test_a_token_that_will_not_do_is_said_at_once(scopes: list[str], service: Service, make_guard: MakeGuard) -> None:
    owner = ApiToken.objects.get().user
    weak = tokens.create(owner, "weak", scopes=scopes, by="test")
    with pytest.raises(Refused, match="403"):
        make_guard(SOURCE, token=weak.text).start(30)


def test_a_source_out_of_scope_is_refused(service: Service, make_guard: MakeGuard) -> None:
    owner = ApiToken.objects.get().user
    narrow = tokens.create(owner, "narrow", scopes=["ingest"], patterns=["elsewhere.#"], by="test")
    with pytest.raises(Refused, match="404"):
        make_guard(SOURCE, token=narrow.text).start(30)


def test_a_redirect_is_not_followed(make_guard: MakeGuard, service: Service) -> None:
    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{service.web.url}{self.path}")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Redirecting) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        with pytest.raises(Refused, match="307"):
            make_guard(SOURCE, url=f"http://127.0.0.1:{elsewhere.server_port}").start(30)
        elsewhere.shutdown()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "ftp://poison.example.org"}, "address"),
        ({"url": "http://user:secret@poison.example.org"}, "login"),
        ({"token": "two\nlines"}, "token"),
        ({"preset": "jms"}, "preset"),
        ({"crash_limit": 0}, "crash_limit"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_touched(wrong: dict[str, Any], said: str) -> None:
    given = {"url": "http://127.0.0.1:1", "token": "pa_x", "source": SOURCE, "journal_dir": "/nowhere"}
    with pytest.raises(ValueError, match=said):
        Guard(**(given | wrong))


def test_a_certificate_is_verified(service: Service, make_guard: MakeGuard, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    files = ["--ssl-certfile", str(tmp_path / "server.pem"), "--ssl-keyfile", str(tmp_path / "server.pem")]
    secured = Web(service.web.database_url, tmp_path / "web.log", more=files)
    url = f"https://127.0.0.1:{secured.port}"
    with pytest.raises(ListNotLoaded):
        make_guard(SOURCE, url=url).start(1)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    guard = make_guard(SOURCE, url=url, tls=trusting).start(30)
    with pytest.raises(ValueError, match="read"):
        guard.handle("1", "", fails)
    until(lambda: guard.is_listed("1"))
    guard.close()
    secured.stop()


# --- the server goes away ---


def test_a_report_outlives_the_server_s_absence_and_the_handler_never_waits(
    service: Service, make_guard: MakeGuard
) -> None:
    guard = make_guard(SOURCE, verdict_seconds=0.01).start()
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
    made = tokens.create(owner, "short-lived", scopes=["ingest"], by="test")
    guard = make_guard(SOURCE, token=made.text).start()
    tokens.revoke(made.id, by="test")
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


# --- what is reported ---


def test_a_report_that_the_server_refuses_is_set_aside_and_holds_nothing_up(
    service: Service, make_guard: MakeGuard
) -> None:
    # A payload can only be stored on an address, and this is the name of none.
    guard = make_guard("two words", send_payload=True, verdict_seconds=30).start()
    for _ in range(2):
        with pytest.raises(ValueError, match="read"):
            guard.handle("1", "body", fails)
    until(lambda: len(list((service.journal_dir / "refused").glob("*.json"))) == 2)


def test_a_limit_of_several_failures_lets_a_message_be_tried_again(service: Service, make_guard: MakeGuard) -> None:
    from poisonadmin.domain.access import SYSTEM
    from poisonadmin.operations.configure import save_policy

    save_policy("orders.#", preset=None, settings={"failures_to_list": 3}, destination=None, principal=SYSTEM)
    guard = make_guard(SOURCE, verdict_seconds=30).start()
    for _ in range(3):
        with pytest.raises(ValueError, match="read"):
            guard.handle("1", "", fails)
    assert guard.handle("1", "", fails) is SKIPPED
    assert service.entries(SOURCE)["1"]["failures"] == 3


def test_what_the_list_cannot_hold_is_named_by_its_digest_in_every_consumer(
    service: Service, make_guard: MakeGuard, start_consumer: StartConsumer
) -> None:
    bookmark = "line\nbreak" + "x" * 300
    guard = make_guard(SOURCE, verdict_seconds=30).start()
    with pytest.raises(ValueError, match="read"):
        guard.handle(bookmark, "", fails)
    assert guard.handle(bookmark, "", fails) is SKIPPED
    assert make_guard(SOURCE).start().is_listed(bookmark)


@pytest.mark.parametrize("payload", [b"\xff\x00body", "text", '{"total": 13}', {"total": 13}])
def test_the_payload_goes_along_where_it_is_asked_for(payload: Any, service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE, send_payload=True).start()
    with pytest.raises(ValueError, match="read"):
        guard.handle("13", payload, fails)
    entry = service.until_entry(SOURCE, "13", is_listed=True)
    message = service.ask("GET", f"messages/{entry['message_id']}/")
    assert (message["state"], message["reason"], message["address"]) == ("NDLV", "listed", SOURCE)
    (attempt,) = service.ask("GET", f"messages/{entry['message_id']}/attempts/")["results"]
    assert (attempt["attempt_number"], attempt["error_class"]) == (0, "ValueError")
    assert attempt["error_message"] == "it cannot be read"


def test_a_crash_brings_the_payload_that_stood_in_the_journal(service: Service, start_consumer: StartConsumer) -> None:
    dying = start_consumer(SOURCE, preset="amps", send_payload=True)
    assert dying.ask("handle 5 kill") == ""
    dying.process.wait()
    start_consumer(SOURCE, preset="amps")
    entry = service.until_entry(SOURCE, "5", is_listed=True)
    message = Message.objects.get(id=entry["message_id"])
    assert (message.state, message.reason) == ("NDLV", "listed")


# --- threads, forks, nodes ---


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


def test_a_coroutine_function_is_refused(make_guard: MakeGuard) -> None:
    async def later(payload: object) -> None:
        """Do nothing yet."""

    guard = make_guard(SOURCE).start()
    with pytest.raises(TypeError, match="coroutine"):
        guard.handle("1", "", later)


def test_a_wrapped_handler_is_called_with_bookmark_and_payload(make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    assert guard.wrap(lambda payload, extra: (payload, extra))("1", "body", "more") == ("body", "more")


def test_the_end_leaves_nothing_on_the_disk(service: Service, make_guard: MakeGuard) -> None:
    guard = make_guard(SOURCE).start()
    guard.handle("1", "x", takes)
    guard.close()
    assert [path for path in Path(service.journal_dir).rglob("*") if path.is_file()] == []
    assert os.listdir(guard._root) == []
