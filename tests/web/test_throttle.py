"""Logins: throttled without locking anybody else out, in the audit log, and few at once."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Audit
from poisonadmin.web.pages.logins import (
    ACTIVE_AT,
    AT_ONCE,
    BEGAN_AT,
    MAX_INSIDE,
    MAX_INSIDE_EACH,
    with_login_pool,
)
from tests.fixtures.live_web import Peak, Web, exchange, running_web
from tests.fixtures.pages import PASSWORD, make_user

MIB = 1024 * 1024
LOGIN = "/accounts/login/"
HOME, OFFICE, STRANGE = "198.51.100.7", "192.0.2.9", "203.0.113.66"


@pytest.fixture
def vera(page_settings: None, db: None) -> User:
    return make_user("vera", Role.VIEWER)


def log_in(address: str, name: str = "vera", password: str = PASSWORD, client: Client | None = None) -> int:
    """Try to log in; return the status: 302 where it succeeds, 200 with the form again, 429."""
    fields = {"login": name, "password": password}
    return (client or Client()).post(LOGIN, fields, REMOTE_ADDR=address).status_code


def fail(times: int, address: str = STRANGE, name: str = "vera", client: Client | None = None) -> None:
    for _ in range(times):
        log_in(address, name, "wrong", client)


def audited(action: str) -> list[dict[str, str]]:
    return [row.details for row in Audit.objects.filter(action=action, object_id="vera").order_by("id")]


@pytest.mark.parametrize(
    "other", [HOME, "203.0.114.66", "2001:db8:0:1::1"], ids=["elsewhere", "next network", "by IPv6"]
)
def test_failures_lock_nobody_out_elsewhere(vera: User, other: str) -> None:
    fail(20)
    assert log_in("203.0.113.1") == 429
    assert log_in(other) == 302


def test_networks_of_ipv6_have_64_bits(vera: User) -> None:
    fail(20, "2001:db8::1")
    assert log_in("2001:db8::ffff:2") == 429
    assert log_in("2001:db8:0:1::1") == 302
    fail(20, "::ffff:203.0.113.1")
    assert log_in("203.0.113.2") == 429


def test_one_account_s_failures_lock_no_other_out_behind_the_same_proxy(vera: User) -> None:
    for number in range(14):
        fail(1, name=f"guess-{number}")
    fail(50, name="someone")
    assert log_in(STRANGE) == 302


def test_one_guess_on_each_of_many_accounts_is_slowed_in_its_network_and_there_alone(vera: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        statuses = Counter(log_in(STRANGE, f"guess-{number}", "wrong") for number in range(39))
        assert statuses == {200: 19, 429: 20}
        assert log_in("203.0.113.1") == 429
        assert log_in(HOME) == 302
        # A login of their own, which guessers may have, forgets nothing of the others.
        make_user("mallory", Role.VIEWER)
        clock.shift(16)
        assert log_in(STRANGE, "mallory") == 302
        log_in(STRANGE, "guess-40", "wrong")
        assert log_in(STRANGE) == 429
        counted = AccessAttempt.objects.count()
        for number in range(60):
            clock.shift(60)
            log_in(STRANGE, f"more-{number}", "wrong")
        assert AccessAttempt.objects.count() - counted <= 17, "one in five minutes at last"


def test_many_networks_together_are_slowed_at_one_account_which_its_own_browser_does_not_feel(vera: User) -> None:
    mine, networks = Client(), [f"203.0.{number}.66" for number in range(16)]
    assert log_in(HOME, client=mine) == 302
    mine.post("/accounts/logout/")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        statuses = Counter(log_in(network, password="wrong") for network in networks * 5)
        assert statuses[200] == 19
        assert log_in(OFFICE) == 429
        assert log_in(OFFICE, client=mine) == 302, "a known browser, wherever it is"
        assert log_in(OFFICE, "someone", "wrong") == 200
        # It is slow and locks nobody out: whoever waits a minute is let in, however many guess meanwhile.
        for network in networks:
            log_in(network, password="wrong")
        clock.shift(61)
        assert log_in(OFFICE) == 302


def test_guesses_by_a_browser_that_another_account_knows_are_those_of_a_stranger(vera: User) -> None:
    make_user("mallory", Role.VIEWER)
    theirs = Client()
    assert log_in(STRANGE, "mallory", client=theirs) == 302
    theirs.post("/accounts/logout/")
    for number in range(20):
        log_in(STRANGE, f"guess-{number}", "wrong", client=theirs)
    assert log_in(STRANGE) == 429
    assert log_in(STRANGE, client=theirs) == 429
    assert log_in(STRANGE, "mallory", client=theirs) == 302


def test_waits_grow_and_end_and_refused_attempts_do_not_count(vera: User) -> None:
    now = timezone.now()
    with time_machine.travel(now, tick=False) as clock:
        fail(4)
        assert log_in(STRANGE, password="wrong") == 429
        waits = []
        for _ in range(4):
            fail(3)
            answer = Client().post(LOGIN, {"login": "vera", "password": PASSWORD}, REMOTE_ADDR=STRANGE)
            waits.append(int(answer["Retry-After"]))
            clock.shift(waits[-1] + 1)
            assert log_in(STRANGE, password="wrong") == 429
        assert waits == [15, 30, 60, 120]
        clock.shift(3600)
        assert log_in(STRANGE) == 302


def test_a_name_in_other_letters_is_the_same_account(vera: User) -> None:
    for name in ("vera", "Vera", "VERA", " vera", "vERA", "veRa"):
        fail(1, name=name)
    assert log_in(STRANGE) == 429


def test_unknown_names_are_refused_like_known_ones(vera: User) -> None:
    fail(8, name="nobody")
    assert log_in(STRANGE, "nobody") == 429


def test_the_owner_gets_in_from_a_browser_they_used_before_and_that_browser_is_throttled_too(vera: User) -> None:
    mine = Client()
    assert log_in(HOME, client=mine) == 302
    mine.post("/accounts/logout/")
    fail(20, HOME)
    assert log_in(HOME) == 429
    assert log_in(HOME, client=mine) == 302
    mine.post("/accounts/logout/")
    fail(8, HOME, client=mine)
    assert log_in(HOME, client=mine) == 429


def test_a_browser_is_known_for_its_own_account_only(vera: User) -> None:
    make_user("mallory", Role.VIEWER)
    theirs = Client()
    assert log_in(HOME, "mallory", client=theirs) == 302
    theirs.post("/accounts/logout/")
    cookie = theirs.cookies["known_browser"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    fail(20, HOME)
    assert log_in(HOME, client=theirs) == 429


def test_logins_failures_and_log_outs_are_in_the_audit_log(vera: User) -> None:
    mine = Client()
    fail(1, STRANGE, name="VERA")
    log_in(HOME, client=mine)
    mine.post("/accounts/logout/", REMOTE_ADDR=HOME)
    fail(3, name="a password typed as a name")
    assert audited("user.login_failed") == [{"network": "203.0.113.0"}]
    assert audited("user.logged_in") == audited("user.logged_out") == [{"network": "198.51.100.0"}]
    assert Audit.objects.filter(action__startswith="user.log").count() == 3


def test_refused_attempts_do_not_fill_the_audit_log(vera: User) -> None:
    fail(50)
    assert len(audited("user.login_failed")) == 5


def is_in(client: Client, **headers: str) -> bool:
    return client.get("/", headers=headers).status_code == 200


def test_a_session_ends_when_it_was_idle_for_so_many_hours(vera: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = Client()
        log_in(HOME, client=client)
        for _ in range(3):
            clock.shift(timedelta(hours=11))
            assert is_in(client)
        clock.shift(timedelta(hours=13))
        assert not is_in(client)


def test_a_session_ends_after_a_week_however_busy_it_is(vera: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = Client()
        log_in(HOME, client=client)
        hours = 0
        while is_in(client):
            clock.shift(timedelta(hours=8))
            hours += 8
        assert hours == 168
        log_in(HOME, client=client)
        clock.shift(timedelta(hours=11))
        assert is_in(client)


def test_the_end_of_a_session_is_in_the_database_where_other_readers_of_it_see_it(vera: User) -> None:
    client = Client()
    log_in(HOME, client=client)
    assert is_in(client)
    session = Session.objects.get()
    began_at = session.get_decoded()[BEGAN_AT]
    with time_machine.travel(timezone.now() + timedelta(hours=167), tick=False):
        Session.objects.update(expire_date=timezone.now() + timedelta(hours=1))
        store = SessionStore(session.session_key)
        store[ACTIVE_AT] = 0
        store.set_expiry(3600)
        store.save()
        assert is_in(client)
        assert Session.objects.get().expire_date.timestamp() == pytest.approx(began_at + 168 * 3600, abs=2)


def test_a_page_that_refreshes_itself_keeps_no_session_alive(vera: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = Client()
        log_in(HOME, client=client)
        for _ in range(3):
            clock.shift(timedelta(hours=3.9))
            assert is_in(client, **{"HX-Request": "true", "Sec-Fetch-Mode": "cors"})
        clock.shift(timedelta(hours=0.5))
        assert not is_in(client)


def test_a_user_who_is_switched_off_is_out_at_once_and_stays_out_of_old_sessions(vera: User) -> None:
    client = Client()
    log_in(HOME, client=client)
    call_command("user", "deactivate", "vera")
    assert not is_in(client)
    assert log_in(OFFICE) == log_in(OFFICE, password="wrong") == 200
    assert Audit.objects.filter(action="user.login_failed", object_id="vera").count() == 2
    call_command("user", "activate", "vera")
    assert not is_in(client)
    assert log_in(OFFICE) == 302
    by_command = Audit.objects.filter(object_id="vera", actor="command line").order_by("id")
    assert list(by_command.values_list("action", flat=True)) == ["user.deactivated", "user.activated"]
    with pytest.raises(CommandError, match="no account nobody"):
        call_command("user", "deactivate", "nobody")


@pytest.mark.parametrize(
    "path",
    [
        *("email/", "confirm-email/", "confirm-email/x/", "password/set/", "login/code/confirm/"),
        *("password/reset/", "password/reset/done/", "password/reset/key/1-x/", "password/reset/key/done/"),
    ],
)
def test_what_would_need_mail_is_not_there(vera: User, path: str) -> None:
    client = Client()
    client.force_login(vera)
    assert client.get(f"/accounts/{path}").status_code == 404
    assert client.post(f"/accounts/{path}", {"email": "a@example.org"}).status_code == 404


@pytest.fixture(scope="module")
def static_files() -> None:
    """Let pages be rendered by the web process."""
    call_command("collectstatic", interactive=False, verbosity=0)


CSRF = "a" * 32


def post_login(address: str, name: str, password: str, **headers: str) -> int:
    body = f"login={name}&password={password}&csrfmiddlewaretoken={CSRF}".encode()
    kind = "application/x-www-form-urlencoded"
    return exchange(address, "POST", LOGIN, body, Content_Type=kind, Cookie=f"csrftoken={CSRF}", **headers)[0]


@pytest.fixture
def trusting(transactional_db: None, static_files: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a web process behind a proxy that it trusts; yield its address."""
    monkeypatch.setenv("POISONADMIN_TRUSTED_PROXIES", "127.0.0.0/8,192.0.2.0/24")
    with running_web() as (address, _):
        yield address


def test_the_headers_of_proxies_are_believed_from_trusted_networks_only(
    transactional_db: None, static_files: None, fresh_web: Web, trusting: str
) -> None:
    make_user("vera", Role.VIEWER)
    post_login(fresh_web[0], "vera", "wrong", X_Forwarded_For=HOME)
    # What a client wrote itself stands to the left of what the proxies added.
    post_login(trusting, "vera", "wrong", X_Forwarded_For=f"{STRANGE}, {HOME}, {OFFICE}")
    assert [row["network"] for row in audited("user.login_failed")] == ["127.0.0.0", "198.51.100.0"]


def test_forty_logins_at_once_take_the_memory_of_four(static_files: None, fresh_web: Web) -> None:
    address, process = fresh_web
    names = [f"user-{number}" for number in range(40)]
    for name in names:
        User.objects.create(username=name)
    assert post_login(address, names[0], "wrong") == 200
    before = process.memory_info().rss
    with ThreadPoolExecutor(44) as people:
        with Peak(process) as peak:
            logins = [people.submit(post_login, address, name, "wrong") for name in names]
            others = [people.submit(exchange, address, "GET", LOGIN) for _ in range(4)]
            statuses = Counter(login.result() for login in logins)
        assert [other.result()[0] for other in others] == [200] * 4
    print({"answers": dict(statuses), "grown by MiB": (peak.bytes - before) // MIB})
    assert statuses == {200: MAX_INSIDE_EACH, 503: 40 - MAX_INSIDE_EACH}
    assert peak.bytes - before < (AT_ONCE * 100 + 50) * MIB


class Pool:
    """The pool before an application that works until it is told to end."""

    def __init__(self) -> None:
        self.at_work = 0
        self.statuses: list[int] = []
        self.may_end = asyncio.Event()
        self.application = with_login_pool(self._work)

    async def _work(self, _: Any, receive: Any, send: Any) -> None:
        self.at_work += 1
        assert (await receive())["body"] == b"login=vera"
        await self.may_end.wait()
        self.at_work -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def post(self, network: int, body: asyncio.Future[bytes] | None = None) -> None:
        """Send a form from an address of that network."""
        scope = {"type": "http", "method": "POST", "path": LOGIN, "headers": [], "query_string": b""}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": await body if body else b"login=vera", "more_body": False}

        async def send(message: Any) -> None:
            if "status" in message:
                self.statuses.append(message["status"])

        await self.application(scope | {"client": (f"198.51.{network}.7", 1)}, receive, send)


def test_a_few_work_some_wait_the_others_are_refused_and_a_network_takes_a_share() -> None:
    async def scene() -> None:
        pool = Pool()
        endless: asyncio.Future[bytes] = asyncio.Future()
        unfinished = [asyncio.ensure_future(pool.post(9, endless)) for _ in range(100)]
        inside = [asyncio.ensure_future(pool.post(1)) for _ in range(40)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.at_work == AT_ONCE
        assert pool.statuses == [503] * (40 - MAX_INSIDE_EACH)
        inside += [asyncio.ensure_future(pool.post(2)) for _ in range(40)]
        inside.append(asyncio.ensure_future(pool.post(3)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.at_work == AT_ONCE
        assert len(pool.statuses) == 81 - MAX_INSIDE
        pool.may_end.set()
        await asyncio.gather(*inside)
        await pool.post(3)
        assert Counter(pool.statuses) == {503: 81 - MAX_INSIDE, 200: MAX_INSIDE + 1}
        for one in unfinished:
            one.cancel()

    # In a thread of its own: the browser tests leave an event loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, scene()).result()


def test_the_page_that_refuses_says_how_long_to_wait(vera: User) -> None:
    fail(5)
    answer = Client().post(LOGIN, {"login": "vera", "password": PASSWORD}, REMOTE_ADDR=STRANGE)
    assert re.search(r"closed for 1[0-5] seconds", answer.content.decode())
