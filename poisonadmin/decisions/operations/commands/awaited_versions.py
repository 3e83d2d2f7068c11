"""Begins operations that wait for a version of their consumer, once that was seen alive."""

import json
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.decisions.operations.commands.beginning import start
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.deployments.queries import Sighting, sightings
from poisonadmin.groups.commands.regressions import clear_regressed
from poisonadmin.store.models.operation import Operation

_OPEN = """
UPDATE operation SET state = 'running', state_at = now(), version_seen = %(seen)s
WHERE id = %(id)s AND state = 'waiting_for_version'
"""


def begin_awaited() -> int:
    """Begin the operations whose version is alive by now; return how many."""
    waiting = Operation.objects.filter(ended_at=None, state=OperationState.WAITING_FOR_VERSION)
    return sum(_open(operation) for operation in waiting.order_by("id"))


def _open(operation: Operation) -> bool:
    seen = _seen(operation)
    if seen is None:
        return False
    evidence = {"version": seen.version, "seen_in": seen.seen_in, "at": seen.at.isoformat()}
    values: dict[str, Any] = {"id": operation.id, "seen": json.dumps(evidence)}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_OPEN, values)
        if not cursor.rowcount:
            return False
        clear_regressed(cursor, operation.selection_id)
        start(operation)
        details = {"begin_when": operation.begin_when, "seen": evidence}
        audit.record("system", "operation.version_seen", "operation", str(operation.id), details=details)
    return True


def _seen(operation: Operation) -> Sighting | None:
    """Return the latest sign that a version will do; None where there is none yet."""
    assert operation.begin_when is not None
    awaited = BeginWhen(**operation.begin_when)
    found = [one for one in sightings(awaited.consumer, operation.requested_at) if awaited.is_met_by(one.version)]
    return found[-1] if found else None
