"""What a broker said of a message, as lines of name and text."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from poisonadmin.sources.domain.broker_kinds import words_of

MOST_LINES = 60
# Shown among the message's headers, as texts; here they are kept in the broker's own types.
_KEPT_TYPED = "headers"


def transport_lines(transport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is worth a look; headers are shown elsewhere.

    >>> transport_lines({"broker": "kafka", "topic": "", "properties": {"leader": 4}, "key": {"base64": "YQ=="}})
    [('broker', 'Kafka'), ('topic', '""'), ('properties.leader', '4'), ('key', "b'a'")]
    """
    named = {**transport, "broker": words_of(str(transport.get("broker")))}
    lines = list(_lines({name: value for name, value in named.items() if name != _KEPT_TYPED}))
    return lines[:MOST_LINES]


def _lines(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if value is None:
            continue
        if isinstance(value, Mapping) and set(value) != {"base64"} and not before:
            yield from _lines(value, f"{name}.")
        else:
            yield before + name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and set(value) == {"base64"}:
        try:
            return repr(base64.b64decode(str(value["base64"]), validate=True))
        except (binascii.Error, ValueError):
            return str(value)
    return str(value) if value != "" else '""'
