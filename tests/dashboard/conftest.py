"""People with each role, their browsers, and messages in the states that pages show."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from poisonadmin.domain.access import SYSTEM, Role
from poisonadmin.domain.envelope import parse_envelope
from poisonadmin.operations import configure
from poisonadmin.operations.intake import accept
from poisonadmin.store.models import Access, Message

PASSWORD = "correct-horse-battery"
OUTSIDE = ["elsewhere.#"]


@pytest.fixture(autouse=True)
def pages_of_a_test(settings: Settings) -> None:
    """Let the test client in, hash passwords quickly, and forget who was throttled."""
    cache.clear()
    settings.ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def make_user(name: str, role: Role | None, patterns: list[str] | None = None) -> User:
    """Create a user; without a role where None."""
    user = User.objects.create_user(name, password=PASSWORD)
    if role is not None:
        Access.objects.create(user=user, role=role, address_patterns=patterns or [])
    return user


@pytest.fixture
def browser_of(db: None) -> Callable[[str], Client]:
    """Return the browser of anonymous, viewer, operator, admin, outsider (operator of other addresses) or roleless."""
    roles = {
        "viewer": (Role.VIEWER, None),
        "operator": (Role.OPERATOR, None),
        "admin": (Role.ADMIN, None),
        "outsider": (Role.OPERATOR, OUTSIDE),
        "roleless": (None, None),
    }
    known: dict[str, Client] = {}

    def browser(who: str) -> Client:
        if who not in known:
            known[who] = Client()
            if who in roles:
                known[who].force_login(
                    make_user(who, *roles[who]), "allauth.account.auth_backends.AuthenticationBackend"
                )
        return known[who]

    return browser


@pytest.fixture
def operator(browser_of: Callable[[str], Client]) -> Client:
    """Return the browser of an operator."""
    return browser_of("operator")


@pytest.fixture
def delivering(db: None) -> None:
    """Let `orders.#` deliver somewhere."""
    make_delivering()


def make_delivering() -> None:
    """Make a destination, with a secret, and a policy that sends `orders.#` there."""
    configure.save_destination(
        "shop",
        kind="http",
        config={"url": "http://127.0.0.1:9/"},
        secrets={"Authorization": "Bearer planted-canary"},
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    configure.save_policy("orders.#", preset=None, settings={}, destination="shop", principal=SYSTEM)


def dead_letter(address: str = "orders.eu", **fields: object) -> Message:
    """Hand in a dead letter: NDLV, with a failure of its own."""
    letter = {
        "reason": "MaxDeliveryAttemptsReached",
        "exception_class": "com.example.Boom",
        "exception_message": "it went boom",
        "stack": "com.example.Boom: it went boom\n\tat com.example.Orders.apply(Orders.java:12)",
    }
    given = fields.pop("dead_letter", {})
    envelope = {"address": address, "payload": {"n": 1}, "dead_letter": letter | given} | fields  # type: ignore[operator]
    return Message.objects.get(id=accept(parse_envelope(envelope), principal=SYSTEM, received_by="test").id)


def waiting(address: str = "orders.eu", **fields: object) -> Message:
    """Hand in an ordinary message: TBDL."""
    envelope = {"address": address, "payload": {"n": 1}} | fields
    return Message.objects.get(id=accept(parse_envelope(envelope), principal=SYSTEM, received_by="test").id)
