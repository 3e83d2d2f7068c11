"""Tests a payload by the clauses of a search, one by one."""

from collections.abc import Callable, Iterable
from typing import Any

from poisonadmin.rules.domain.content_rules import Subject
from poisonadmin.rules.domain.json_conditions import Holds, json_condition
from poisonadmin.search.deep.domain.scan import PayloadAt, PayloadHolds

PayloadTest = Callable[[bytes | None], bool]


def payload_test(clauses: Iterable[PayloadAt | PayloadHolds], *, loads: Callable[[bytes], Any]) -> PayloadTest:
    """Return what tells whether a payload, None for none, is what all clauses say.

    `loads` parses JSON or raises ValueError.

    >>> import json
    >>> test = payload_test([PayloadHolds(b"77"), PayloadHolds(b"78", negated=True)], loads=json.loads)
    >>> test(b'{"customer": 77}'), test(b'[77, 78]')
    (True, False)
    """
    held = [clause for clause in clauses if isinstance(clause, PayloadHolds)]
    inside = [(json_condition(one.condition), one.negated) for one in clauses if isinstance(one, PayloadAt)]

    def holds(payload: bytes | None) -> bool:
        found = payload or b""
        if any((one.held in found) is one.negated for one in held):
            return False
        subject = Subject(found, loads=loads)
        return all(_is_so(subject, test) is not negated for test, negated in inside)

    return holds


def _is_so(subject: Subject, holds: Holds) -> bool:
    try:
        return subject.is_looked_into and holds(subject.document())
    except ValueError:  # the payload is not JSON
        return False
