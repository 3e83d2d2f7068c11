"""A guard's start, what it reports, and its end."""

import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import ApiToken
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.accounts import create_token
from poisonguard.errors import GuardError, ListNotLoaded, Refused
from poisonguard.guard import SKIPPED, Guard
from tests.poisonguard.conftest import MakeGuard, Service, StartConsumer, Web, closed_port, until

SOURCE = "orders.eu"


def fails(payload: Any) -> None:
    """Fail, whatever it is."""
    raise ValueError("it cannot be read")


def takes(payload: Any) -> Any:
    """Take whatever it is."""
    return payload


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
    weak = create_token(owner, "weak", scopes=scopes, by="test")
    with pytest.raises(Refused, match="403"):
        make_guard(SOURCE, token=weak.text).start(30)


def test_a_source_out_of_scope_is_refused(service: Service, make_guard: MakeGuard) -> None:
    owner = ApiToken.objects.get().user
    narrow = create_token(owner, "narrow", scopes=["ingest"], patterns=["elsewhere.#"], by="test")
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


def test_a_report_that_the_server_refuses_is_set_aside_and_holds_nothing_up(
    service: Service, make_guard: MakeGuard
) -> None:
    # A payload can only be stored on an address, and this is the name of none.
    guard = make_guard("two words", send_payload=True, decision_seconds=30).start()
    for _ in range(2):
        with pytest.raises(ValueError, match="read"):
            guard.handle("1", "body", fails)
    until(lambda: len(list((service.journal_dir / "refused").glob("*.json"))) == 2)


def test_a_limit_of_several_failures_lets_a_message_be_tried_again(service: Service, make_guard: MakeGuard) -> None:
    save_policy("orders.#", preset=None, settings={"failures_to_list": 3}, destination=None, principal=SYSTEM)
    guard = make_guard(SOURCE, decision_seconds=30).start()
    for _ in range(3):
        with pytest.raises(ValueError, match="read"):
            guard.handle("1", "", fails)
    assert guard.handle("1", "", fails) is SKIPPED
    assert service.entries(SOURCE)["1"]["failures"] == 3


@pytest.mark.parametrize(("options", "listed"), [({}, True), ({"crash_limit": 2}, False)])
def test_the_source_s_policy_says_at_which_crash_it_is_listed_unless_the_guard_does(
    options: dict[str, int], listed: bool, service: Service, start_consumer: StartConsumer
) -> None:
    save_policy("orders.#", preset="amps", settings={}, destination=None, principal=SYSTEM)
    dying = start_consumer(SOURCE, **options)
    assert dying.ask("handle 5 kill") == ""
    dying.process.wait()
    start_consumer(SOURCE, **options)
    assert service.until_entry(SOURCE, "5", crashes=1)["is_listed"] == listed


def test_what_the_list_cannot_hold_is_named_by_its_digest_in_every_consumer(
    service: Service, make_guard: MakeGuard, start_consumer: StartConsumer
) -> None:
    bookmark = "line\nbreak" + "x" * 300
    guard = make_guard(SOURCE, decision_seconds=30).start()
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
