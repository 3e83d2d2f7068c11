"""What a search finds, by a plain loop over the rows."""

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from django.db import connection

from poisonadmin.core.domain.json_path import parse_path
from poisonadmin.rules.domain.content_rules import MAX_JSON_BYTES
from poisonadmin.searches.commands.searching import Searching
from poisonadmin.searches.domain.scan import Clause, HeaderIs, Hit, PayloadAt, PayloadHolds, Wave

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
    found = []
    for one in wave.ranges:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, payload, headers FROM body WHERE id > %s AND id <= %s", [one.after, one.until])
            for message_id, payload, headers in cursor.fetchall():
                if wave.ids is not None and message_id not in wave.ids:
                    continue
                if all(holds(clause, bytes(payload), bytes(headers).decode()) for clause in wave.clauses):
                    found.append(Hit(message_id))
    return found


PLAIN = Searching(find, str, worker="tests")
