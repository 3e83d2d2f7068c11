"""What a search finds, by a plain loop over the rows."""

import base64
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.json_path import parse_path
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.rules.domain.content_rules import MAX_JSON_BYTES
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.search.deep.commands.searching import Searching, work
from poisonadmin.search.deep.domain import Clause, HeaderIs, Hit, PayloadAt, PayloadHolds, Wave

_BOUNDS = {"min": operator.ge, "above": operator.gt, "max": operator.le, "below": operator.lt}


def holds(clause: Clause, payload: bytes, headers: str) -> bool:
    """Return whether a message is what the clause says."""
    if isinstance(clause, PayloadHolds):
        return (clause.held in payload) is not clause.negated
    if isinstance(clause, HeaderIs):
        return any(one in headers for one in clause.members) is not clause.negated
    if len(payload) > MAX_JSON_BYTES:
        return clause.negated
    try:
        document = orjson.loads(payload)
    except ValueError:
        return clause.negated
    return any(_fits(value, clause) for value in _at(document, parse_path(clause.condition["path"]))) is (
        not clause.negated
    )


def _at(document: Any, path: Sequence[Any]) -> Iterator[Any]:
    if not path:
        yield document
        return
    step = path[0]
    if step is None:
        inner = document if isinstance(document, list) else []
    elif isinstance(step, str):
        inner = [document[step]] if isinstance(document, dict) and step in document else []
    else:
        inner = document[step : step + 1] if isinstance(document, list) else []
    for one in inner:
        yield from _at(one, path[1:])


def _fits(value: Any, clause: PayloadAt) -> bool:
    condition = clause.condition
    if "present" in condition:
        return True
    if "one_of" in condition:
        return any(_is_same(value, one) for one in condition["one_of"])
    ((name, bound),) = (condition.get("within") or condition["between"]).items()
    return type(value) in (int, float) and bool(_BOUNDS[name](value, bound))


def _is_same(value: Any, other: Any) -> bool:
    both_numbers = type(value) in (int, float) and type(other) in (int, float)
    return (both_numbers or type(value) is type(other)) and value == other


def find(wave: Wave) -> list[Hit]:
    """Return the hits among live messages."""
    asked = [("id > %s AND id <= %s", [one.after, one.until]) for one in wave.ranges] or [("id = ANY(%s)", [wave.ids])]
    found = []
    for where, parameters in asked:
        for message_id, payload, headers in fetch_rows(_BODIES.format(where), parameters):
            if all(holds(clause, bytes(payload), bytes(headers).decode()) for clause in wave.clauses):
                found.append(Hit(message_id))
    return found


def search_due(searching: Searching) -> None:
    """Carry out the searches that are requested."""
    carry_out(work(searching), worker="tests", seconds=600)


def put(*payloads: bytes, address: str = "orders.eu", headers: Sequence[dict[str, str]] = ()) -> list[int]:
    """Store messages with these payloads; return their ids."""
    lines = [
        json.dumps(
            {
                "address": address,
                "payload_base64": base64.b64encode(payload).decode(),
                "headers": headers[n] if headers else {},
            }
        ).encode()
        + b"\n"
        for n, payload in enumerate(payloads)
    ]
    report = accept_stream(lines, principal=SYSTEM)
    assert report.accepted == len(payloads), report
    return sorted(fetch_values("SELECT id FROM message ORDER BY id DESC LIMIT %s", [len(payloads)]))


_BODIES = "SELECT id, payload, headers FROM body WHERE {}"
PLAIN = Searching(find, str)
