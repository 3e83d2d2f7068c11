"""A message as its producer sends it, and as a consumer gets it, whatever the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sent:
    """What a producer sends. `headers` may hold whatever the broker's client takes; `properties` are the broker's."""

    payload: bytes
    message_id: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Received:
    """What a consumer gets."""

    payload: bytes
    message_id: str | None
    headers: Mapping[str, Any]
    properties: Mapping[str, Any] = field(default_factory=dict)
