"""Consumers by name, and where a version of one was seen alive.

A consumer is named by the destination that delivers to it, or by the addresses that it consumes: an address or a
pattern. A heartbeat names its source, an answer its destination, and a deployment what its reporter wrote.
"""

from enum import StrEnum

from poisonadmin.core.domain.addresses import InvalidAddress, matches, validate_pattern
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.deployments.domain.versions import MAX_VERSION_CHARS

MAX_CONSUMER_CHARS = 255


class SeenIn(StrEnum):
    """The signs that a version is alive."""

    ANSWER = "answer"
    HEARTBEAT = "heartbeat"
    DEPLOYMENT = "deployment"


class InvalidDeployment(InvalidField):
    """Raised when a field of a deployment is invalid; `field` names what is wrong."""

    code = "invalid_deployment"


def checked_consumer(name: str) -> str:
    """Return the name of a consumer; raise InvalidDeployment."""
    try:
        return validate_pattern(name)
    except InvalidAddress as error:
        raise InvalidDeployment("consumer", error.detail) from None


def checked_version(version: str) -> str:
    """Return a version; raise InvalidDeployment.

    >>> checked_version(" 2.5.0 ")
    '2.5.0'
    """
    version = version.strip()
    if not (1 <= len(version) <= MAX_VERSION_CHARS and version.isprintable()):
        raise InvalidDeployment("version", f"must be 1 to {MAX_VERSION_CHARS} printable characters.")
    return version


def is_same_consumer(one: str, other: str) -> bool:
    """Return whether two names name the same consumer, or one of them the addresses of the other.

    >>> is_same_consumer("billing", "billing"), is_same_consumer("orders.#", "orders.eu")
    (True, True)
    """
    return one == other or matches(one, other) or matches(other, one)
