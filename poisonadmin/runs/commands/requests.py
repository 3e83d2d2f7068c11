"""Requests for runs, their cancellation, and the removal of those that have expired."""

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import NotAllowed, Principal
from poisonadmin.core.domain.encryption import encrypted
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_one, fetch_rows
from poisonadmin.core.queries.sql import Sql, all_of, named_sql
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import COLUMNS, StoredRun, find_run, patterns_json, requested_by, with_params

_SAME = partial(
    Sql,
    """SELECT {columns} FROM run
    WHERE kind = {kind} AND state IN ('queued', 'running') AND position IS NOT NULL AND {same} ORDER BY id LIMIT 1""",
    columns=COLUMNS,
)
_COUNTS = """
SELECT count(*) FILTER (WHERE state IN ('queued', 'running')),
       count(*) FILTER (WHERE ended_at IS NULL OR expires_at IS NULL OR expires_at > now())
FROM run WHERE kind = %s AND account = %s AND position IS NOT NULL
"""
_REQUEST = str(
    named_sql(
        """
INSERT INTO run (kind, params, secrets, position, requested_by, account, patterns, expires_at)
VALUES (%(kind)s, %(params)s, %(secrets)s, %(position)s, %(by)s, %(account)s, %(patterns)s,
    now() + %(waits)s)
RETURNING {columns}
""",
        columns=COLUMNS,
    )
)
# A run that has begun may hold more than its row: its worker lets go of that first.
_CANCEL = """
UPDATE run SET state = CASE WHEN started_at IS NULL THEN 'cancelled' ELSE 'cancelling' END,
    ended_at = CASE WHEN started_at IS NULL THEN now() END, secrets = NULL,
    expires_at = CASE WHEN started_at IS NULL THEN now() + %(kept)s END
WHERE id = %(run)s AND state IN ('queued', 'running')
"""
_END = """
UPDATE run SET state = CASE WHEN ended_at IS NULL THEN 'failed' ELSE state END,
    error = CASE WHEN ended_at IS NULL THEN %(why)s ELSE error END, phase = NULL,
    ended_at = coalesce(ended_at, now()), expires_at = now()
WHERE kind = ANY(%(kinds)s) AND position IS NOT NULL AND (ended_at IS NULL OR expires_at IS NULL OR expires_at > now())
"""
_EXPIRED = """
DELETE FROM run WHERE id IN (
    SELECT id FROM run WHERE expires_at < now() AND (ended_at IS NOT NULL OR state = 'queued')
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


class TooManyRuns(PoisonAdminError):
    """Raised when an account has as many open runs of a kind as it may have, or keeps as many."""

    code = "too_many_runs"
    status = 429


class RunEnded(PoisonAdminError):
    """Raised when a run is to be cancelled that has ended, or is being cancelled already."""

    code = "run_ended"
    status = 409


def request_run(
    kind: RunKind,
    params: Mapping[str, Any],
    *,
    principal: Principal,
    reuse: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    account: str | None = None,
    is_audited: bool = True,
    **audited: Any,
) -> StoredRun:
    """Request a run. `reuse`: an open run with these parameters is returned instead, where there is one.

    `secrets`: for the work alone (`RunTurn.take_secrets`), beside `params` and never shown.
    `account`: by default the person; "" counts the runs of all accounts together. `is_audited`: it is in the audit log.
    `audited`: `details`, `note`, `object_id` of the entry there. Errors: `TooManyRuns`.
    """
    account = principal.person if account is None else account
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.RUN_REQUESTS, lock_key(crc32(kind.name.encode())))
        if reuse is not None:
            same = with_params(reuse)
            if kind.is_personal:
                same = all_of([same, requested_by(account, principal)])
            former = fetch_one(StoredRun, _SAME(kind=str(kind.name), same=same))
            if former is not None:
                return former
        _require_room(kind, account, principal)
        values = {
            "kind": str(kind.name),
            "params": json.dumps(params),
            "secrets": json.dumps(encrypted(dict(secrets), os.environ)) if secrets else None,
            "position": "{}",
            "by": principal.name,
            "account": account,
            "patterns": patterns_json(principal),
            "waits": kind.waits,
        }
        run = fetch_one(StoredRun, _REQUEST, values)
        assert run is not None
        if is_audited:
            _record(kind, "requested", run, principal, **audited)
    return run


def _require_room(kind: RunKind, account: str, principal: Principal) -> None:
    if kind.max_open is None and kind.max_kept is None:
        return
    [(running, kept)] = fetch_rows(_COUNTS, [str(kind.name), account])
    if kind.max_open is not None and running >= kind.max_open:
        there = f"{principal.name} has" if account else "There are"
        way_out = "Wait for one." if kind.cancelled_by is None else "Wait for one, or cancel it."
        raise TooManyRuns(f"{there} {running} runs ({kind.noun}) that have not ended. {way_out}")
    if kind.max_kept is not None and kept >= kind.max_kept:
        raise TooManyRuns(f"{principal.name} has made {kept} runs ({kind.noun}); each is removed after a time.")


def cancel_run(kind: RunKind, run_id: int, *, principal: Principal, **audited: Any) -> None:
    """Cancel a run of the caller's account, or of another one with the kind's permission `cancelled_by`.

    A run that has begun is cancelling until its worker has let go of it. Errors: `NotAllowed`, `NotFound`, `RunEnded`.
    """
    run = find_run(kind.name, run_id)
    if run is None:
        raise NotFound(f"There is no {kind.noun} {run_id}.")
    if kind.cancelled_by is None:
        raise NotAllowed(f"Nobody cancels runs of this kind ({kind.noun}).")
    if not run.is_of(principal):
        principal.require(kind.cancelled_by)
    values: dict[str, Any] = {"run": run.run_id, "kept": kind.kept}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CANCEL, values)
        if not cursor.rowcount:
            raise RunEnded(f"The {kind.noun} {run_id} has ended, or is being cancelled; nothing was done.")
        _record(kind, "cancelled", run, principal, **audited)


def _record(kind: RunKind, what: str, run: StoredRun, principal: Principal, **audited: Any) -> None:
    object_id = audited.pop("object_id", str(run.id))
    audit.record(principal.name, kind.audited_as.format(what), kind.audited_object, object_id, **audited)


def end_runs(cursor: CursorWrapper, kinds: Sequence[KindName], *, why: str) -> None:
    """Fail the open runs of these kinds, and let all of their runs expire now, in the caller's transaction."""
    cursor.execute(_END, {"kinds": [str(kind) for kind in kinds], "why": why})


def remove_expired_runs() -> None:
    """Remove the runs that have ended, or have not begun in time, and whose time is over."""
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRED)
        while cursor.rowcount:
            cursor.execute(_EXPIRED)
