"""What a broker said of a message beyond its headers: where it came from, its key, its properties."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.messages.queries.detail import require_message


@dataclass(frozen=True)
class Transport:
    """`transport`: `{broker, …}` as its broker told it, bytes in it as `{base64}`; null where no broker did.

    It is what the message is given back with, when it returns to a broker of this kind.
    """

    transport: Mapping[str, Any] | None


@dataclass(frozen=True)
class _StoredTransport:
    transport: bytes | None


def get_transport(message_id: int, *, principal: Principal) -> Transport:
    """Return what the message's broker said of it; raise NotFound."""
    principal.require(Permission.READ)
    require_message(message_id, principal=principal)
    found = fetch_one(_StoredTransport, "SELECT transport FROM body WHERE id = %s", [message_id])
    if found is None or found.transport is None:
        return Transport(None)
    try:
        told = json.loads(bytes(found.transport))
    except (ValueError, RecursionError):
        return Transport(None)
    return Transport(told if isinstance(told, dict) else None)
