"""The configuration of a source or a destination at a broker, checked for API, pages, command line and workers.

Which settings a kind of broker has is declared in `broker_kinds.py`; here is how a configuration of them is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

from poisonadmin.brokers.domain.broker_kinds import BROKERS, BrokerKind
from poisonadmin.brokers.domain.broker_urls import InvalidBrokerUrl, parse_broker_url
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import InvalidValue, Refuse, checked_config
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination

MAX_QUEUES = 100
MAX_SECRET_CHARS = 2048


class InvalidSource(InvalidField):
    """Raised when a source's configuration cannot be used; `field` names what is wrong."""

    code = "invalid_source"


def validate_broker_source(
    kind: str, config: Mapping[str, Any], *, name: str, guard: NetworkGuard | None = None, needs_queues: bool = True
) -> dict[str, Any]:
    """Return the configuration of a source of this kind, only what it sets; raise InvalidSource naming the field.

    Shape: `{url, queues}`, for some kinds `{url, topics}`, and the settings that the kind declares. What a setting says
    is to be stored is filled in, from the source's `name`. Without `needs_queues` it may name none: somebody asks which
    there are.

    >>> validate_broker_source("kafka", {"url": "kafka://k.example.org", "topics": ["orders-dlt"]}, name="shop")
    {'url': 'kafka://k.example.org', 'topics': ['orders-dlt'], 'group': 'poisonadmin-shop'}
    """
    broker = BROKERS[kind]
    names = config.get(broker.drained)
    first: dict[str, Callable[[], Any]] = {
        "url": lambda: _url(kind, config.get("url"), guard),
        broker.drained: lambda: _names(broker, names) if needs_queues or names else [],
    }
    return checked_config(broker.source, config, InvalidSource, guard=guard, instead=first, name=name)


def validate_broker_destination(
    kind: str, config: Mapping[str, Any], *, guard: NetworkGuard | None = None
) -> dict[str, Any]:
    """Return the configuration of a destination, only what it sets; raise InvalidDestination naming the field.

    Shape: `{url}` and the settings that the kind declares. Without a redirect a message returns to where it came from,
    else to the queue or topic named as its address.

    >>> validate_broker_destination("rabbitmq", {"url": "amqp://r.example.org", "queue": "orders"})
    {'url': 'amqp://r.example.org', 'queue': 'orders'}
    """
    refuse = InvalidDestination
    first = {"url": lambda: _url(kind, config.get("url"), guard)}
    checked = checked_config(BROKERS[kind].destination, config, refuse, guard=guard, instead=first)
    if "exchange" in checked and "queue" in checked:
        raise refuse("exchange", "a redirect goes to a queue or to an exchange, not to both")
    if "routing_key" in checked and "exchange" not in checked:
        raise refuse("routing_key", "needs an exchange; a queue has no other key than its name")
    return checked


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


def _url(kind: str, url: object, guard: NetworkGuard | None) -> str:
    try:
        parse_broker_url(kind, url, guard=guard)
    except InvalidBrokerUrl as error:
        raise InvalidValue(error.detail) from None
    return str(url)


def _names(broker: BrokerKind, names: object) -> list[str]:
    if not isinstance(names, list | tuple) or not 1 <= len(names) <= MAX_QUEUES:
        raise InvalidSource(broker.drained, f"must be a list of 1 to {MAX_QUEUES} names")
    try:
        checked = [str(broker.check_name(name)) for name in names]
    except InvalidValue as error:
        raise InvalidSource(broker.drained, str(error)) from None
    if len(set(checked)) < len(checked):
        raise InvalidSource(broker.drained, "a name is there twice")
    return checked


def _is_storable(value: str) -> bool:
    try:
        return "\x00" not in value.encode().decode()
    except UnicodeEncodeError:
        return False
