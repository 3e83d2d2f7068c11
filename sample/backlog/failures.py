"""The failures of a backlog: each with an address where it happens, a class, a text that varies, and a stack trace."""

import random
from dataclasses import dataclass

from poisonadmin.groups.domain import failures
from poisonadmin.groups.domain.failures import Failure

SERVICES = ("orders", "billing", "shipping", "stock", "customers", "payments", "returns", "mail", "prices", "search")
_REGIONS = ("eu", "us", "apac")
_EVENTS = ("created", "changed", "cancelled", "closed")
ADDRESSES = tuple(f"{service}.{region}.{event}" for service in SERVICES for region in _REGIONS for event in _EVENTS)
_ERRORS = (
    ("java.net.SocketTimeoutException", "Read timed out after {n} ms calling {service}-api"),
    ("org.postgresql.util.PSQLException", "ERROR: duplicate key value violates unique constraint: order {n}"),
    ("com.fasterxml.jackson.databind.exc.InvalidFormatException", "Cannot deserialize value of field total: {n},00"),
    ("java.lang.NullPointerException", "Cannot invoke Customer.address() because customer is null"),
    ("java.util.concurrent.RejectedExecutionException", "Pool of {service} is exhausted, {n} tasks wait"),
    ("javax.validation.ConstraintViolationException", "quantity must be greater than 0, but was -{n}"),
    ("java.lang.IllegalStateException", "Order {n} is closed already"),
    ("org.apache.http.conn.HttpHostConnectException", "Connect to {service}.internal:8443 failed: Connection refused"),
)
_WHERE = ("Listener", "Handler", "Mapper", "Repository", "Client", "Validator", "Service", "Gateway")


@dataclass(frozen=True)
class Kind:
    """Failures of one group. `text` has a place for a number."""

    address: str
    dead_letter_address: str
    error_class: str
    text: str
    stack: str
    fingerprint: str
    title: str


def make_kinds(count: int, seed: int) -> list[Kind]:
    """Return so many kinds of failures, each with another fingerprint."""
    dice = random.Random(f"kinds {seed}")
    return [_kind(number, dice) for number in range(count)]


def _kind(number: int, dice: random.Random) -> Kind:
    address = dice.choice(ADDRESSES)
    service = address.partition(".")[0]
    error_class, text = dice.choice(_ERRORS)
    # The line of the application that failed tells one kind from the others.
    own = f"com.example.{service}.{service.capitalize()}{dice.choice(_WHERE)}{number}"
    stack = "\n".join(
        [
            f"{error_class}: {text.format(service=service, n=number)}",
            "\tat java.base/java.util.ArrayList.forEach(ArrayList.java:1511)",
            f"\tat {own}.apply({own.rpartition('.')[2]}.java:{dice.randrange(20, 400)})",
            f"\tat com.example.{service}.Consumer.onMessage(Consumer.java:88)",
            "\tat org.springframework.jms.listener.SimpleMessageListenerContainer.run(Listener.java:785)",
        ]
    )
    failure = Failure(error_class, text.format(service=service, n=number), stack=stack)
    return Kind(
        address,
        f"{service}.dlq",
        error_class,
        text.replace("{service}", service),
        stack,
        failures.fingerprint(failure),
        failures.title(failure),
    )
