"""Logins: throttled by account and network with growing waits, few at once, in the audit log, ended when idle.

django-axes counts failures, by account, by network and by both, and refuses. It has one number of failures for all of
these, one fixed time for "counts" and "is refused", and one name for "where": waits that grow, a limit for each count,
and browsers that are told apart from strangers in their network, are added here, as its handler.
"""

import asyncio
import ipaddress
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Max, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.session_keys import ACTIVE_AT, BEGAN_AT, BROWSER, MAX_BROWSER_CHARS, NETWORK

FIRST_WAIT_SECONDS = 15
# For each of AXES_LOCKOUT_PARAMETERS, how many failures make nobody wait, and the longest wait: of an account in a
# network, of all accounts in a network, of an account in all networks. A known browser counts by itself in each.
LIMITS = ((5, 900), (20, 300), (20, 60))
IPV4_PREFIX, IPV6_PREFIX = 24, 64
KNOWN_BROWSER = "known_browser"
KNOWN_BROWSER_SECONDS = 180 * 24 * 3600
# A session is written at most this often; it may end so much earlier.
ACTIVE_EVERY_SECONDS = 300


def wait_after(failures: int, free: int, most_seconds: int) -> int:
    """Return for how many seconds after the last of so many failures the next try is refused.

    >>> [wait_after(failures, 5, 900) for failures in (0, 4, 5, 6, 7, 10, 11, 10_000)]
    [0, 0, 15, 30, 60, 480, 900, 900]
    """
    if failures < free:
        return 0
    return int(min(FIRST_WAIT_SECONDS << min(failures - free, 16), most_seconds))


def network_of(request: HttpRequest) -> str | None:
    """Return the first address of the client's network (/24 or /64); None where it has no address."""
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    prefix = IPV4_PREFIX if address.version == 4 else IPV6_PREFIX
    return str(ipaddress.ip_network((int(address), prefix), strict=False).network_address)


def account_of(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """Return the name that was given, as accounts are told apart: in small letters."""
    given = (credentials or {}).get("username") or request.POST.get("login", "")
    return str(given).strip().lower()[:150]


class LoginThrottle(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts failures by account, network and known browser, and keeps the audit log."""

    def is_locked(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        """Return whether the account has to wait there."""
        return self.wait_seconds(request, credentials) > 0

    def wait_seconds(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Return how many seconds the account has still to wait there."""
        _tell_apart(request, credentials)
        waits = [0]
        for attempts, limit in zip(self.get_user_attempts(request, credentials), LIMITS, strict=True):
            found = attempts.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
            wait = wait_after(found["failures"] or 0, *limit)
            if wait:  # of two at once the other one's failure may be the later one
                waits.append(wait - int((request.axes_attempt_time - found["last"]).total_seconds()))
        return max(waits)

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Return what axes takes for too many failures where the account has to wait, and for none elsewhere."""
        return int(settings.AXES_FAILURE_LIMIT) if self.is_locked(request, credentials) else 0

    def reset_user_attempts(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Forget the account's failures there; those of the network's other accounts, and of elsewhere, stay."""
        return int(self.filter_user_attempts(request, credentials)[0].delete()[0])

    def user_login_failed(self, sender: Any, credentials: Any, request: Any = None, **more: Any) -> None:
        """Count a failure; write down those of existing accounts only, or strangers could fill the audit log."""
        _tell_apart(request, credentials)
        was_refused = request.axes_locked_out
        super().user_login_failed(sender, credentials, request, **more)
        user = None if was_refused else User.objects.filter(username__iexact=account_of(request, credentials)).first()
        if user is not None:
            _record("user.login_failed", user, request)

    def user_logged_in(self, sender: Any, request: Any, user: Any, **more: Any) -> None:
        """Forget the failures there, and know the browser again."""
        credentials = {"username": user.get_username()}
        _tell_apart(request, credentials)
        super().user_logged_in(sender, request, user, **more)
        request.session[NETWORK] = network_of(request)
        request.session[BROWSER] = request.headers.get("User-Agent", "")[:MAX_BROWSER_CHARS]
        request.known_browser = [account_of(request, credentials), request.axes_user_agent or secrets.token_hex(8)]
        _record("user.logged_in", user, request)

    def user_logged_out(self, sender: Any, request: Any, user: Any, **more: Any) -> None:
        """Write it down."""
        super().user_logged_out(sender, request, user, **more)
        if user is not None:
            _record("user.logged_out", user, request)


def _record(action: str, user: User, request: HttpRequest) -> None:
    name = user.get_username()
    audit.record(name, action, "user", name, details={"network": network_of(request)})


def _tell_apart(request: Any, credentials: dict[str, Any] | None) -> None:
    """Set what axes calls the user agent: the browser in which this account logged in before, "" for any other."""
    try:
        account, browser = signing.loads(
            request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, ""),
            salt=KNOWN_BROWSER,
            max_age=KNOWN_BROWSER_SECONDS,
        )
    except (signing.BadSignature, ValueError, TypeError):
        account, browser = None, ""
    request.axes_user_agent = browser if account == account_of(request, credentials) else ""


def refused(request: HttpRequest, _: HttpResponse | None = None, credentials: Any = None) -> HttpResponse:
    """Return the page that says how long to wait."""
    seconds = max(1, AxesProxyHandler.get_implementation().wait_seconds(request, credentials))
    answer = render(request, "account/locked.html", {"seconds": seconds}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


def sessions(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: let what a person does keep their session alive, and give the browser of a login its cookie.

    The session ends at a time of its own, which no other write of it moves.
    """

    def handled(request: HttpRequest) -> HttpResponse:
        if _is_by_hand(request) and SESSION_KEY in request.session:
            now = int(time.time())
            if now - request.session.get(ACTIVE_AT, 0) >= ACTIVE_EVERY_SECONDS:
                request.session[ACTIVE_AT] = now
                latest = request.session.setdefault(BEGAN_AT, now) + settings.SESSION_MAX_SECONDS
                ends_at = min(now + settings.SESSION_COOKIE_AGE, latest)
                request.session.set_expiry(datetime.fromtimestamp(ends_at, UTC))
        response = get_response(request)
        if browser := getattr(request, "known_browser", None):
            response.set_cookie(
                settings.KNOWN_BROWSER_COOKIE_NAME,
                signing.dumps(browser, salt=KNOWN_BROWSER),
                max_age=KNOWN_BROWSER_SECONDS,
                httponly=True,
                secure=settings.SESSION_COOKIE_SECURE,
                samesite="Strict",
            )
        return response

    return handled


def _is_by_hand(request: HttpRequest) -> bool:
    """Return False for what a page does by itself, such as its refreshing every few seconds."""
    return request.method != "GET" or request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

ACCOUNTS_PATH = "/accounts/"
AT_ONCE = 4
# At work and waiting, of everybody and of one network, so that no network takes all places.
MAX_INSIDE = 20
MAX_INSIDE_EACH = 10
WAIT_SECONDS = 10.0
_BUSY = b"Too many people are logging in at this moment. Nothing was done; try again in a few seconds.\n"


def with_login_pool(application: Application) -> Application:
    """Return the ASGI application; a few forms with passwords are handled at once, the others wait or get 503."""
    at_work = asyncio.Semaphore(AT_ONCE)
    inside: Counter[str | None] = Counter()

    async def pooled(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(ACCOUNTS_PATH):
            await application(scope, receive, send)
            return
        # Whole before it takes a place, which a body that never ends would keep.
        received = [await receive()]
        while received[-1].get("more_body"):
            received.append(await receive())

        async def replayed() -> Message:
            return received.pop(0) if received else await receive()

        network = network_of(ASGIRequest(scope, BytesIO()))
        if inside.total() >= MAX_INSIDE or inside[network] >= MAX_INSIDE_EACH:
            await _refuse(send)
            return
        inside[network] += 1
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await at_work.acquire()
            except TimeoutError:
                await _refuse(send)
                return
            try:
                await application(scope, replayed, send)
            finally:
                at_work.release()
        finally:
            inside[network] -= 1
            if not inside[network]:
                del inside[network]

    return pooled


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_BUSY)), (b"retry-after", b"5")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})


class ClosedSignup(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Return False: administrators make accounts."""
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Raise ValidationError where passwords are switched off."""
        if not settings.LOCAL_LOGIN:
            raise ValidationError("Passwords are switched off here. Use single sign-on.")
        super().pre_authenticate(request, **credentials)

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Return the user; None for a closed account, whose right password is answered, and counted, as a wrong one."""
        user = super().authenticate(request, **credentials)
        return user if user is not None and user.is_active else None
