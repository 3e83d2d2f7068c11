"""Carries requested runs out, in turns of a worker.

A turn takes a run, has the work of its kind done, and lets go of it again. All of its writes are conditional: a run
that was cancelled, or that another turn has taken since, is not changed any more. A worker that dies at any line leaves
a run that the next turn goes on with.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import structlog
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection

from poisonadmin.core.commands.locks import alone, shared
from poisonadmin.core.domain.encryption import decrypted
from poisonadmin.core.domain.errors import PoisonAdminError, error_text
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_one, fetch_values
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import RunKind, RunState
from poisonadmin.runs.queries.runs import COLUMNS, DUE, OPEN, StoredRun, is_open

# A worker has other things to do: after this long the rest is left to the next tick.
TURN_SECONDS = 10.0

_READY = named_sql(
    """kind = %(kind)s AND {due}
    AND NOT EXISTS (SELECT FROM run AS other WHERE other.kind = ANY(%(waits_for)s) AND other.{open})""",
    due=DUE,
    open=OPEN,
)
_OLDEST = named_sql("SELECT min(id) FROM run WHERE {ready}", ready=_READY)
# The accounts take turns, each with the oldest of its runs.
_OF_NEXT_ACCOUNT = named_sql(
    """
SELECT min(id) FROM run WHERE {ready} GROUP BY kind, account
ORDER BY (SELECT max(turn_at) FROM run AS former WHERE former.kind = run.kind AND former.account = run.account)
    NULLS FIRST, 1 LIMIT 1
""",
    ready=_READY,
)
_TAKE = partial(
    named_sql,
    """
UPDATE run SET state = CASE WHEN state = 'queued' THEN 'running' ELSE state END, phase = coalesce(phase, %(phase)s),
    tries = tries + 1, worker = %(worker)s, started_at = coalesce(started_at, now()), heartbeat_at = now(),
    turn_at = clock_timestamp(), resumes_at = NULL
WHERE {open} AND id = coalesce(
    (SELECT min(id) FROM run WHERE kind = %(kind)s AND {due} AND state = 'cancelling'), ({next}))
RETURNING {columns}
""",
)
_TAKE_OLDEST, _TAKE_OF_NEXT_ACCOUNT = (
    str(_TAKE(open=OPEN, due=DUE, columns=COLUMNS, next=one)) for one in (_OLDEST, _OF_NEXT_ACCOUNT)
)


_MINE = partial(named_sql, "WHERE id = %(run)s AND turn_at = %(turn)s AND state = '{state}'")


def _of_turn(changed: str, *, state: RunState = RunState.RUNNING) -> str:
    """Return the statement that changes a run of this state as long as it is the turn's."""
    return str(named_sql("UPDATE run SET {changed} {mine}", changed=raw(changed), mine=_MINE(state=raw(state))))


_STORE = _of_turn(
    """phase = coalesce(%(phase)s, phase), done = coalesce(%(done)s, done), total = coalesce(%(total)s, total),
    result = coalesce(%(result)s::jsonb, result), position = coalesce(%(position)s::jsonb, position),
    tries = CASE WHEN %(position)s::jsonb IS NULL THEN tries ELSE 0 END, heartbeat_at = now()"""
)
_FINISH = _of_turn(
    """state = 'succeeded', result = %(result)s, done = coalesce(%(done)s, done), phase = NULL, error = NULL,
    ended_at = now(), expires_at = now() + %(kept)s"""
)
_FAIL = _of_turn(
    """state = 'failed', error = %(error)s, phase = NULL, secrets = NULL, ended_at = now(),
    expires_at = now() + %(kept)s"""
)
_WAIT = _of_turn(
    "state = 'queued', error = %(error)s, resumes_at = now() + %(resumes_after)s, tries = 0, worker = NULL"
)
_LET_GO = _of_turn("tries = 0, state = CASE WHEN %(is_stopping)s THEN 'queued' ELSE state END")
_CANCELLED = _of_turn(
    "state = 'cancelled', phase = NULL, ended_at = now(), expires_at = now() + %(kept)s",
    state=RunState.CANCELLING,
)
_TAKE_SECRETS = str(
    named_sql(
        """
WITH mine AS (SELECT id, secrets FROM run {mine} FOR UPDATE)
UPDATE run SET secrets = NULL FROM mine WHERE run.id = mine.id RETURNING mine.secrets
""",
        mine=_MINE(state=raw(RunState.RUNNING)),
    )
)


class TurnEnded(Exception):
    """Raised in a turn whose run was cancelled or is another turn's by now, or whose worker is to stop."""


class RunTurn:
    """One turn of a worker with a run, for the work of its kind.

    The work ends the run with `finish`, or returns when it must pause; the next turn goes on where `run.position` says.
    `fail` and `let_go` are called by `carry_out`.
    """

    def __init__(self, kind: RunKind, run: StoredRun, *, until: float, is_stopping: Callable[[], bool]) -> None:
        self.run = run
        self._kind = kind
        self._until = until
        self.is_stopping = is_stopping
        self.is_over = False

    def must_pause(self) -> bool:
        """Return whether the work has to be left to a later turn."""
        return self.is_stopping() or time.monotonic() >= self._until

    def report(self, phase: str | None = None, *, done: int | None = None, total: int | None = None) -> None:
        """Write down how far the run is. Errors: `TurnEnded`, also where the worker is to stop."""
        self.store(phase=phase, done=done, total=total)
        if self.is_stopping():
            raise TurnEnded

    def store(
        self,
        *,
        position: Mapping[str, Any] | None = None,
        result: Mapping[str, Any] | None = None,
        phase: str | None = None,
        done: int | None = None,
        total: int | None = None,
    ) -> None:
        """Write down where a later turn goes on, and what is known so far; None leaves a value as it is.

        In a transaction the run stays as it is until the transaction ends, so rows of the kind that are written in it
        belong to this position. Errors: `TurnEnded`.
        """
        self._change(_STORE, position=_json(position), result=_json(result), phase=phase, done=done, total=total)
        given: dict[str, Any] = {"position": position, "result": result, "phase": phase, "done": done, "total": total}
        self.run = replace(self.run, **{name: value for name, value in given.items() if value is not None})

    def take_secrets(self) -> Mapping[str, str]:
        """Return the secrets that came with the request and forget them; empty where there are none any more."""
        found = fetch_values(_TAKE_SECRETS, {"run": self.run.run_id, "turn": self.run.turn_at})
        return decrypted(json.loads(found[0]), os.environ) if found and found[0] else {}

    def finish(self, result: Mapping[str, Any], *, done: int | None = None) -> None:
        """End the run well, also in one transaction with rows of the kind. Errors: `TurnEnded`."""
        self._change(_FINISH, result=_json(result), done=done)
        self.is_over = True

    def _change(self, sql: str, **values: Any) -> None:
        if not self._changes(sql, **values):
            raise TurnEnded

    def _changes(self, sql: str, **values: Any) -> bool:
        own = {"run": self.run.run_id, "turn": self.run.turn_at, "kept": self._kind.kept}
        with connection.cursor() as cursor:
            cursor.execute(sql, own | values)
            return bool(cursor.rowcount)

    def fail(self, error: str) -> None:
        """End the run with an error, or have it wait, where its kind goes on by itself."""
        after = self._kind.resumes_after
        self._changes(_FAIL if after is None else _WAIT, error=error[:4000], resumes_after=after)

    def let_go(self, clean_up: "CleanUp | None") -> None:
        """Leave the run to the next turn, or end it where it was cancelled."""
        own = [self.run.run_id, self.run.turn_at]
        states = fetch_values("SELECT state FROM run WHERE id = %s AND turn_at = %s", own)
        if clean_up is not None and states in ([RunState.CANCELLING], [RunState.FAILED]):
            clean_up(self)
        if states == [RunState.CANCELLING]:
            self._changes(_CANCELLED)
        self._changes(_LET_GO, is_stopping=self.is_stopping())


CleanUp = Callable[[RunTurn], object]


@dataclass(frozen=True)
class RunWork:
    """The work of a kind. `clean_up` removes what a run holds besides its row, when the run is cancelled or has failed;
    killed in between, it is called again for a cancelled run."""

    kind: RunKind
    carry_out: Callable[[RunTurn], object]
    clean_up: CleanUp | None = None


def carry_out(
    work: RunWork,
    *,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Give the runs of a kind that are due their turns, for about `seconds`, unless another worker does just now.

    Errors: whatever a work raises that is no `PoisonAdminError`; its run has failed then.
    """
    kind = work.kind
    until = time.monotonic() + seconds
    with alone(Lock.RUN_TURNS, lock_key(crc32((kind.alone_with or kind.name).encode()))) as is_alone:
        while is_alone and time.monotonic() < until and not is_stopping():
            with nullcontext(True) if kind.shares is None else shared(kind.shares) as may_read:
                run = _take(kind, worker) if may_read else None
                if run is None:
                    return
                ends = until if kind.slice_seconds is None else min(until, time.monotonic() + kind.slice_seconds)
                turn = RunTurn(kind, run, until=ends, is_stopping=is_stopping)
                if not _kept_alive(turn, work, heartbeat):
                    return


def _take(kind: RunKind, worker: str) -> StoredRun | None:
    values = {"kind": str(kind.name), "worker": worker, "phase": kind.first_phase, "waits_for": list(kind.waits_for)}
    return fetch_one(StoredRun, _TAKE_OLDEST if kind.slice_seconds is None else _TAKE_OF_NEXT_ACCOUNT, values)


def _kept_alive(turn: RunTurn, work: RunWork, heartbeat: RunHeartbeat | None) -> bool:
    run_id = turn.run.run_id
    structlog.contextvars.bind_contextvars(run_id=run_id)
    if heartbeat is None:
        # By the lock others see that the run's worker is there, however late it says so.
        with alone(Lock.RUN, lock_key(run_id)):
            return _have_turn(turn, work)
    heartbeat.hold(run_id)
    try:
        return _have_turn(turn, work)
    finally:
        # Between two turns a run is as alive as in one.
        if not is_open(run_id):
            heartbeat.release(run_id)


def _have_turn(turn: RunTurn, work: RunWork) -> bool:
    """Do the work until it ends or must pause; return whether another run may have a turn now."""
    unforeseen: Exception | None = None
    has_ended = False
    try:
        _begin(turn, work.kind)
        work.carry_out(turn)
    except TurnEnded:
        has_ended = True
    except Exception as error:
        foreseen = error.detail if isinstance(error, PoisonAdminError) else None
        if foreseen is None:
            connection.close_if_unusable_or_obsolete()
        # Errors of a worker that stops are the stop's doing.
        if not turn.is_stopping():
            turn.fail(foreseen or error_text(error))
            unforeseen = error if foreseen is None else None
            has_ended = True
    turn.let_go(work.clean_up)
    if unforeseen is not None:
        raise unforeseen
    # A work that returns before it must pause waits for something.
    return has_ended or turn.is_over or turn.must_pause()


def _begin(turn: RunTurn, kind: RunKind) -> None:
    if kind.max_tries is not None and turn.run.tries > kind.max_tries:
        many = f"It was begun {kind.max_tries} times, and ended its worker each time."
        turn.fail("It ended its worker." if kind.max_tries == 1 else many)
        raise TurnEnded
    if turn.run.state == RunState.CANCELLING:
        raise TurnEnded


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, cls=DjangoJSONEncoder)
