"""Erasures: messages leave the database and the archive, and a tombstone says who had them erased, when and why.

First what is live goes, then what is archived stops counting, then the files that had it are written anew without it.
What is done is in the rows: an erasure goes on after any crash, and does nothing twice.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from poisonadmin.archive.commands import rewriting
from poisonadmin.archive.commands.holds import Filter, checked_filter, filters_in_force, require_archivist
from poisonadmin.archive.commands.left_out import rewritten_without
from poisonadmin.archive.commands.patches import forget_patches
from poisonadmin.archive.commands.rewriting import FileStore
from poisonadmin.archive.domain.chosen import APPEND_ONLY, TABLES
from poisonadmin.archive.domain.runs import ErasureState
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.decisions.commands.decisions import decide
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.messages.queries.counts import COUNTED
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import SECONDS_AFTER_ERROR, TURN_SECONDS, job_of, working_on
from poisonadmin.runs.commands.requests import end_runs
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import QUOTING, KindName
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.queries.archived import archived_where
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.store.models.archive import Erasure

PIECE_MESSAGES = 1_000
_PHASE, _REWRITING = "erasing", "writing files anew"

_DELETE_MESSAGES = f"""
WITH gone AS (
    DELETE FROM message WHERE id = ANY(%(ids)s) RETURNING id, address_id, state, reason, group_id, original_address_id
), counted AS (
    INSERT INTO counter_delta ({COUNTED}, delta) SELECT {COUNTED}, -count(*) FROM gone GROUP BY {COUNTED}
)
INSERT INTO erased_message (id, erasure_id, address_id) SELECT id, %(erasure)s, address_id FROM gone
"""  # noqa: S608  (constants)
# What else quotes messages. A group keeps its title while other failures have it, and an operation its ledger.
_FORGET = """
DELETE FROM business_key WHERE message_id = ANY(%(ids)s);
DELETE FROM removed_payload WHERE message_id = ANY(%(ids)s);
DELETE FROM fingerprint_alias WHERE message_id = ANY(%(ids)s);
WITH gone AS (DELETE FROM operation_result WHERE message_id = ANY(%(ids)s) RETURNING operation_id, outcome, code)
INSERT INTO archived_result (operation_id, outcome, code, n, message_ids)
SELECT operation_id, outcome, code, count(*), '{}' FROM gone GROUP BY operation_id, outcome, code;
UPDATE archived_result SET message_ids = ARRAY(
    SELECT one FROM unnest(message_ids) AS one WHERE one <> ALL(%(ids)s) ORDER BY one)
WHERE message_ids && %(ids)s::bigint[]
  AND piece_id IN (SELECT piece_id FROM archive_left_out WHERE message_id = ANY(%(ids)s));
UPDATE failure_words AS w SET (message_ids, attempt_numbers) = (
    SELECT coalesce(array_agg(one.id), '{}'), coalesce(array_agg(one.number), '{}')
    FROM unnest(w.message_ids, w.attempt_numbers) AS one (id, number) WHERE one.id <> ALL(%(ids)s))
WHERE message_ids && %(ids)s::bigint[];
DELETE FROM failure_words WHERE message_ids = '{}';
UPDATE failure_group AS g SET sample_message_id = NULL,
    title = CASE WHEN EXISTS (SELECT FROM attempt WHERE fingerprint = g.fingerprint AND outcome <> 'delivered')
                 THEN title ELSE error_class END
WHERE sample_message_id = ANY(%(ids)s);
DELETE FROM group_proposal WHERE into_message = ANY(%(ids)s) OR group_message = ANY(%(ids)s);
UPDATE poison_entry SET why = 'erased' WHERE message_id = ANY(%(ids)s)
"""
# The rows in files stop counting; they are rewritten later.
_ERASE_ARCHIVED = """
WITH gone AS (DELETE FROM archived_message WHERE id = ANY(%(ids)s) RETURNING id, piece_id, address_id),
left_out AS (INSERT INTO archive_left_out (piece_id, message_id) SELECT piece_id, id FROM gone)
INSERT INTO erased_message (id, erasure_id, address_id) SELECT id, %(erasure)s, address_id FROM gone
"""
_TO_REWRITE = """
SELECT piece_id, array_agg(message_id) FROM archive_left_out JOIN erased_message ON id = message_id
GROUP BY piece_id ORDER BY piece_id LIMIT 1
"""


def request_erasure(given: Filter, *, reason: str, principal: Principal) -> Erasure:
    """Have what matches now erased. Errors: `NotAllowed`, `InvalidFilter`, `NothingNamed`.

    What is under way is left alone, and so is what a legal hold names. A filter that the archive's index cannot answer
    is refused: it would leave archived messages behind.
    """
    require_archivist(principal)
    texts = checked_filter(given)
    archived_where(parse_filter(texts), SYSTEM)
    with transaction.atomic():
        made = Erasure.objects.create(filter=texts, reason=reason, requested_by=principal.name)
        # Not the filter: it may name the person.
        audit.record(principal.name, "erasure.requested", "erasure", str(made.id), note=reason)
    made.refresh_from_db()
    return made


def is_any_due() -> bool:
    """Return whether an erasure is asked for and does not wait, or files are left to remove."""
    return _due().exists() or rewriting.has_former()


def _due() -> QuerySet[Erasure]:
    return Erasure.objects.filter(Q(waits_until=None) | Q(waits_until__lte=Now()), ended_at=None)


def erase_due(
    store: FileStore,
    *,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the erasure that is asked for, for about `seconds`. Call under `single_flight(Tick.ARCHIVE)`."""
    erasure = _due().first()
    until = time.monotonic() + seconds
    if erasure is None:
        rewriting.remove_former(store)
        return
    job_id = job_of(erasure, KindName.ERASE, worker=worker, params={"erasure": erasure.id}, phase=_PHASE)
    with working_on(job_id, fail=partial(_fail, erasure, job_id), heartbeat=heartbeat, is_stopping=is_stopping):
        _go_on(erasure, job_id, store, lambda: is_stopping() or time.monotonic() >= until)


def _fail(erasure: Erasure, job_id: int, error: str) -> None:
    worker_runs.fail(job_id, error=error)
    Erasure.objects.filter(id=erasure.id).update(
        waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR), error=error[:4000]
    )


def _go_on(erasure: Erasure, job_id: int, store: FileStore, must_pause: Callable[[], bool]) -> None:
    rewriting.remove_former(store)
    asked = parse_filter(erasure.filter)
    held = filters_in_force()
    holds = list(held.values())
    for ids_of, erase in ((_live_ids, _erase_live), (_archived_ids, _erase_archived)):
        while ids := ids_of(asked, holds):
            worker_runs.move(job_id, phase=_PHASE, done=_erased(erasure))
            if must_pause() or not erase(erasure, ids):
                return
    while rows := fetch_rows(_TO_REWRITE):
        worker_runs.move(job_id, phase=_REWRITING, done=_erased(erasure))
        if must_pause() or not rewritten_without(store, *rows[0]):
            return
    rewriting.remove_former(store)
    left = len(_live_ids(asked, [], is_any=True)) + len(_archived_ids(asked, []))
    with transaction.atomic(), connection.cursor() as cursor:
        totals = {"erased": _erased(erasure), "left_alone": left}
        held_by = [hold_id for hold_id, one in held.items() if left and _is_held(asked, one)]
        named = {"held_by": held_by} if held_by else {}
        if totals["erased"]:
            end_runs(cursor, QUOTING, why="Messages were erased, which it may quote; ask for it again.")
        # The filter may name the person, and has done its work.
        Erasure.objects.filter(id=erasure.id, ended_at=None).update(
            state=ErasureState.DONE, ended_at=Now(), totals={**totals, **named}, filter={}, error=None
        )
        worker_runs.succeed(job_id, counts=totals, done=totals["erased"])
        audit.record(erasure.requested_by, "erasure.done", "erasure", str(erasure.id), details=totals)


def _erased(erasure: Erasure) -> int:
    found: int = fetch_values("SELECT count(*) FROM erased_message WHERE erasure_id = %s", [erasure.id])[0]
    return found


def _live_ids(asked: MessageFilter, holds: Sequence[MessageFilter], *, is_any: bool = False) -> list[int]:
    conditions = [compile_filter(asked, SYSTEM).whole, *(compile_filter(one, SYSTEM).whole.negated for one in holds)]
    if not is_any:
        conditions.append(Sql("m.state IN ('DLVD', 'FAIL', 'NDLV')"))
    return fetch_values(
        Sql(
            "SELECT m.id FROM message m WHERE {chosen} ORDER BY m.id LIMIT {most}",
            chosen=all_of(conditions),
            most=10_000 if is_any else PIECE_MESSAGES,
        )
    )


def _archived_ids(asked: MessageFilter, holds: Sequence[MessageFilter]) -> list[int]:
    held = [archived_where(one, SYSTEM, is_wide=True).negated for one in holds]
    return fetch_values(
        Sql(
            "SELECT r.id FROM archived_message r WHERE {chosen} ORDER BY r.id LIMIT {most}",
            chosen=all_of([archived_where(asked, SYSTEM), *held]),
            most=PIECE_MESSAGES,
        )
    )


def _is_held(asked: MessageFilter, hold: MessageFilter) -> bool:
    """Return whether a legal hold names a message that is asked for."""
    found = fetch_values(
        Sql(
            """SELECT EXISTS (SELECT FROM message m WHERE {live})
            OR EXISTS (SELECT FROM archived_message r WHERE {archived})""",
            live=all_of(compile_filter(one, SYSTEM).whole for one in (asked, hold)),
            archived=all_of([archived_where(asked, SYSTEM), archived_where(hold, SYSTEM, is_wide=True)]),
        )
    )
    return bool(found[0])


def _erase_live(erasure: Erasure, ids: Sequence[int]) -> bool:
    undecided = fetch_values("SELECT id FROM message WHERE id = ANY(%s) AND state = 'NDLV'", [list(ids)])
    if undecided:
        # What waits for a decision is given up first, so that those behind it in its conversation go on.
        decide(OperationAction.FAIL, undecided, principal=SYSTEM, reason=f"erasure {erasure.id}")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM message WHERE id = ANY(%s) AND state IN ('DLVD', 'FAIL') ORDER BY id FOR UPDATE",
            [list(ids)],
        )
        chosen = [row[0] for row in cursor.fetchall()]
        values: dict[str, Any] = {"ids": chosen, "erasure": erasure.id}
        forget_patches(cursor, chosen, "payload", "headers")
        cursor.execute(_DELETE_MESSAGES, values)
        for table, key in TABLES.items():
            if table in APPEND_ONLY:
                cursor.execute("SELECT * FROM forget_kept_rows(%s, %s)", [table, chosen])
            elif table not in ("message", "operation_result"):
                cursor.execute(f"DELETE FROM {table} WHERE {key} = ANY(%s)", [chosen])  # noqa: S608  (constants)
        _forget(cursor, values)
    return bool(chosen)


def _erase_archived(erasure: Erasure, ids: Sequence[int]) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        if not locks.try_lock(cursor, Lock.TABLES):
            return False
        values: dict[str, Any] = {"ids": list(ids), "erasure": erasure.id}
        forget_patches(cursor, ids, "payload", "headers")
        cursor.execute(_ERASE_ARCHIVED, values)
        _forget(cursor, values)
    return True


def _forget(cursor: CursorWrapper, values: dict[str, Any]) -> None:
    for statement in _FORGET.split(";"):
        cursor.execute(statement, values)
