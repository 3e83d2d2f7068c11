"""The terms of a scan of messages, as values that are passed to Spark, which reads them, and the test of a payload by
those that are about it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules.domain.content_rules import Subject
from poisonadmin.rules.domain.json_conditions import Holds, json_condition

PayloadTest = Callable[[bytes | None], bool]
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


def payload_test(clauses: Iterable[PayloadAt | PayloadHolds], *, loads: Callable[[bytes], Any]) -> PayloadTest:
    """Return what tells whether a payload, None for none, is what all clauses say.

    `loads` parses JSON or raises ValueError.

    >>> import json
    >>> test = payload_test([PayloadHolds(b"77"), PayloadHolds(b"78", negated=True)], loads=json.loads)
    >>> test(b'{"customer": 77}'), test(b'[77, 78]')
    (True, False)
    >>> import orjson
    >>> found = payload_test([PayloadAt({"path": "$.id", "one_of": [10**20 + 1]})], loads=orjson.loads)
    >>> found(b'{"id": 100000000000000000001}'), found(b'{"id": 100000000000000000000}')
    (True, False)
    """
    held = [clause for clause in clauses if isinstance(clause, PayloadHolds)]
    at = [clause for clause in clauses if isinstance(clause, PayloadAt)]
    inside = [(json_condition(one.condition), one.negated) for one in at]
    if any(isinstance(number, int) and not -(2**63) <= number < 2**64 for one in at for number in _compared(one)):
        loads = json.loads  # others read whole numbers of so many digits as doubles

    def holds(payload: bytes | None) -> bool:
        found = payload or b""
        if any((one.held in found) is one.negated for one in held):
            return False
        subject = Subject(found, loads=loads)
        return all(_is_so(subject, test) is not negated for test, negated in inside)

    return holds


def _compared(clause: PayloadAt) -> list[Any]:
    """Return the values that a place in the payload is compared with."""
    bounds = clause.condition.get("within") or clause.condition.get("between") or {}
    return [*clause.condition.get("one_of", ()), *bounds.values()]


def _is_so(subject: Subject, holds: Holds) -> bool:
    try:
        return subject.is_looked_into and holds(subject.document())
    except ValueError:  # the payload is not JSON
        return False
