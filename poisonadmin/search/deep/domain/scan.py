"""The terms of a scan of messages, as values that are passed to Spark, which reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.messages.domain.id_ranges import IdRange

_BOUNDS = {">": "above", ">=": "min", "<": "below", "<=": "max"}


@dataclass(frozen=True)
class PayloadHolds:
    """The payload has these bytes somewhere; a text stands for its UTF-8. Case counts."""

    held: bytes
    negated: bool = False


@dataclass(frozen=True)
class PayloadAt:
    """The payload is JSON, of at most `MAX_JSON_BYTES`, and the condition of a content rule holds of it."""

    condition: Mapping[str, Any]
    negated: bool = False


@dataclass(frozen=True)
class HeaderIs:
    """One of these texts, each a member of the JSON object, is in the headers."""

    members: Sequence[str]
    negated: bool = False


Clause = PayloadHolds | PayloadAt | HeaderIs


@dataclass(frozen=True)
class Hit:
    """A message that was found. The texts and the time are known of archived ones only."""

    id: int
    message_id: str | None = None
    address: str | None = None
    state: str | None = None
    received_at: datetime | None = None


@dataclass(frozen=True)
class Wave:
    """A wave that is read at once: live messages in `ranges` or of `ids` (rising), or archived ones in `files` (paths
    or URLs) for which `where` holds, Spark's SQL over `m`.
    """

    clauses: Sequence[Clause]
    ranges: Sequence[IdRange] = ()
    ids: Sequence[int] = ()
    files: Sequence[str] = ()
    where: str = "TRUE"


def condition_at(path: str, operator: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return a comparison with a place in a payload as the condition of a content rule.

    >>> condition_at("$.total", ">", [100])
    {'path': '$.total', 'between': {'above': 100}}
    """
    if operator == "present":
        return {"path": path, "present": True}
    if operator == "=":
        return {"path": path, "one_of": list(values)}
    name = _BOUNDS[operator]
    return {"path": path, "within" if name in ("min", "max") else "between": {name: values[0]}}
