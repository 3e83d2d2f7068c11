"""What the configuration of a broker may say, as a source and as a destination, checked for API, pages and workers.

The workers merge `SOURCE_DEFAULTS[kind]` or `DESTINATION_DEFAULTS[kind]` under what a configuration sets.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url
from poisonadmin.sources.domain.broker_urls import ARTEMIS, KAFKA, RABBITMQ, InvalidBrokerUrl, parse_broker_url

BROKER_KINDS = (RABBITMQ, ARTEMIS, KAFKA)
MAX_QUEUES = 100
MAX_NAME_BYTES = 255
MAX_SECRET_CHARS = 2048
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

READERS = range(1, 9)
BATCH = range(1, 5001)
CONCURRENCY = range(1, 17)
TIMEOUT_MS = range(100, 300_001)
CONFIRM_WITHIN_MS = range(1000, 31 * 86_400_000)

_DRAINED = {"address": "{original}", "verify_tls": True}
_QUEUES = _DRAINED | {"readers": 2}
SOURCE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    RABBITMQ: _QUEUES | {"management_url": None},
    ARTEMIS: _QUEUES,
    KAFKA: _DRAINED | {"group": None, "sasl_mechanism": "PLAIN"},
}
_SENT_TO = {
    "batch": 500,
    "concurrency": 2,
    "timeout_ms": 30_000,
    "confirm_within_ms": None,
    "verify_tls": True,
}
DESTINATION_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    RABBITMQ: _SENT_TO | {"queue": None, "exchange": None, "routing_key": None},
    ARTEMIS: _SENT_TO | {"queue": None},
    KAFKA: _SENT_TO | {"topic": None, "sasl_mechanism": "PLAIN"},
}

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_PLACEHOLDER = re.compile(r"\{(original|queue)\}")

Refuse = Callable[[str, str], PoisonAdminError]


class InvalidSource(PoisonAdminError):
    """Raised when a source's configuration cannot be used; `field` names what is wrong."""

    code = "invalid_source"

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field


def validate_broker_source(
    kind: str, config: Mapping[str, Any], *, name: str, guard: NetworkGuard | None = None, needs_queues: bool = True
) -> dict[str, Any]:
    """Return the configuration of a source of this kind, only what it sets; raise InvalidSource naming the field.

    Shape: `{url, queues, address?, verify_tls?, readers?}` for RabbitMQ and Artemis, for RabbitMQ also
    `management_url`, where its management answers; `{url, topics, group, address?, verify_tls?, sasl_mechanism?}` for
    Kafka, where `group` is filled in from the source's `name`. `address` is a template with `{original}` and
    `{queue}`. Without `needs_queues` it may name none: somebody asks which there are.

    >>> validate_broker_source("kafka", {"url": "kafka://k.example.org", "topics": ["orders-dlt"]}, name="shop")
    {'url': 'kafka://k.example.org', 'topics': ['orders-dlt'], 'group': 'poisonadmin-shop'}
    """
    drained = "topics" if kind == KAFKA else "queues"
    _refuse_unknown(config, ("url", drained, *SOURCE_DEFAULTS[kind]), InvalidSource)
    checked: dict[str, Any] = {
        "url": _url(kind, config.get("url"), guard, InvalidSource),
        drained: _names(kind, drained, config.get(drained)) if needs_queues or config.get(drained) else [],
    }
    if kind == KAFKA:
        checked["group"] = _text("group", config.get("group", f"poisonadmin-{name}"), InvalidSource)
    if "address" in config:
        checked["address"] = _template(config["address"])
    if "readers" in config:
        checked["readers"] = _integer("readers", config["readers"], READERS, InvalidSource)
    if config.get("management_url") is not None:
        checked["management_url"] = _management_url(config["management_url"], guard)
    return checked | _security(config, InvalidSource)


def validate_broker_destination(
    kind: str, config: Mapping[str, Any], *, guard: NetworkGuard | None = None
) -> dict[str, Any]:
    """Return the configuration of a destination, only what it sets; raise InvalidDestination naming the field.

    Shape: `{url, batch?, concurrency?, timeout_ms?, confirm_within_ms?, verify_tls?}`, and a redirect: `queue`, for
    RabbitMQ also `exchange` with an optional `routing_key`, for Kafka `topic` (and `sasl_mechanism`). Without a
    redirect a message returns to where it came from, else to the queue or topic named as its address.

    >>> validate_broker_destination("rabbitmq", {"url": "amqp://r.example.org", "queue": "orders"})
    {'url': 'amqp://r.example.org', 'queue': 'orders'}
    """
    refuse = InvalidDestination
    _refuse_unknown(config, ("url", *DESTINATION_DEFAULTS[kind]), refuse)
    checked: dict[str, Any] = {"url": _url(kind, config.get("url"), guard, refuse)}
    for field in ("queue", "topic"):
        if config.get(field) is not None:
            checked[field] = _name(kind, field, config[field], refuse)
    for field in ("exchange", "routing_key"):
        if config.get(field) is not None:
            checked[field] = _text(field, config[field], refuse, may_be_empty=field == "routing_key")
    if "exchange" in checked and "queue" in checked:
        raise refuse("exchange", "a redirect goes to a queue or to an exchange, not to both")
    if "routing_key" in checked and "exchange" not in checked:
        raise refuse("routing_key", "needs an exchange; a queue has no other key than its name")
    for field, limits in (("batch", BATCH), ("concurrency", CONCURRENCY), ("timeout_ms", TIMEOUT_MS)):
        if field in config:
            checked[field] = _integer(field, config[field], limits, refuse)
    if config.get("confirm_within_ms") is not None:
        checked["confirm_within_ms"] = _integer(
            "confirm_within_ms", config["confirm_within_ms"], CONFIRM_WITHIN_MS, refuse
        )
    return checked | _security(config, refuse)


def validate_login(secrets: Mapping[str, Any], *, refuse: Refuse = InvalidSource) -> dict[str, str]:
    """Return the `username` and `password` of a broker, those that are set; raise `refuse("secrets", why)`.

    >>> validate_login({"username": "drain", "password": "x"})
    {'username': 'drain', 'password': 'x'}
    """
    for field, value in secrets.items():
        if field not in ("username", "password"):
            raise refuse("secrets", "known are username and password")
        # The value is a secret: it is not repeated.
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_SECRET_CHARS or not _is_storable(value):
            raise refuse("secrets", f"the {field} must be a text of 1 to {MAX_SECRET_CHARS} characters")
    if "password" in secrets and "username" not in secrets:
        raise refuse("secrets", "a password needs a username")
    return dict(secrets)


def may_keep_login(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a stored login may go with a changed configuration: it goes nowhere else, and no less guarded.

    Who may write a URL could else have the login sent to a server of their own, and read it there.
    """
    same_place = all(before.get(field) == after.get(field) for field in ("url", "management_url"))
    return same_place and (after.get("verify_tls", True) or not before.get("verify_tls", True))


def _refuse_unknown(config: Mapping[str, Any], known: Iterable[str], refuse: Refuse) -> None:
    for field in config:
        if field not in known:
            raise refuse(str(field)[:100], f"unknown; known are {', '.join(known)}")


def _url(kind: str, url: object, guard: NetworkGuard | None, refuse: Refuse) -> str:
    try:
        parse_broker_url(kind, url, guard=guard)
    except InvalidBrokerUrl as error:
        raise refuse("url", error.detail) from None
    return str(url)


def _management_url(url: object, guard: NetworkGuard | None) -> str:
    try:
        return validate_url(url, guard=guard)
    except InvalidDestination as error:
        raise InvalidSource("management_url", error.detail.removeprefix("url: ")) from None


def _names(kind: str, field: str, names: object) -> list[str]:
    if not isinstance(names, list | tuple) or not 1 <= len(names) <= MAX_QUEUES:
        raise InvalidSource(field, f"must be a list of 1 to {MAX_QUEUES} names")
    checked = [_name(kind, field, name, InvalidSource) for name in names]
    if len(set(checked)) < len(checked):
        raise InvalidSource(field, "a name is there twice")
    return checked


def _name(kind: str, field: str, name: object, refuse: Refuse) -> str:
    text = _text(field, name, refuse)
    if kind == KAFKA and (_TOPIC.match(text) is None or text in (".", "..")):
        raise refuse(field, f"{text!r} is not a topic: letters, digits, dots, underscores and hyphens, at most 249")
    return text


def _text(field: str, value: object, refuse: Refuse, *, may_be_empty: bool = False) -> str:
    # Unprintable characters are refused with the lone surrogates that UTF-8 cannot hold.
    if not isinstance(value, str) or not value.isprintable() or not (value.strip() or (may_be_empty and not value)):
        raise refuse(field, "must be a printable text")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise refuse(field, f"may have at most {MAX_NAME_BYTES} bytes")
    return value


def _template(value: object) -> str:
    text = _text("address", value, InvalidSource)
    try:
        validate_address(_PLACEHOLDER.sub("x", text))
    except InvalidAddress as error:
        raise InvalidSource("address", error.detail) from None
    if "{" in (rest := _PLACEHOLDER.sub("", text)) or "}" in rest:
        raise InvalidSource("address", "known placeholders are {original} and {queue}")
    return text


def _security(config: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    if "verify_tls" in config:
        if not isinstance(config["verify_tls"], bool):
            raise refuse("verify_tls", "must be true or false")
        checked["verify_tls"] = config["verify_tls"]
    if "sasl_mechanism" in config:
        if config["sasl_mechanism"] not in SASL_MECHANISMS:
            raise refuse("sasl_mechanism", f"must be one of {', '.join(SASL_MECHANISMS)}")
        checked["sasl_mechanism"] = config["sasl_mechanism"]
    return checked


def _integer(field: str, value: object, limits: range, refuse: Refuse) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in limits:
        raise refuse(field, f"must be a whole number from {limits.start} to {limits.stop - 1}")
    return value


def _is_storable(value: str) -> bool:
    try:
        return "\x00" not in value.encode().decode()
    except UnicodeEncodeError:
        return False
