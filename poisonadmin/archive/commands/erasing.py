"""Erasures: messages leave the database and the archive, and a tombstone says who had them erased, when and why.

First what is live goes, then what is archived stops counting, then the files that had it are written anew without it.
An erasure goes on after any crash, and does nothing twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.commands import rewriting
from poisonadmin.archive.commands.holds import Filter, checked_filter, filters_in_force, require_archivist
from poisonadmin.archive.commands.ownership import require_own_archive
from poisonadmin.archive.commands.payloads import forget_patches
from poisonadmin.archive.commands.rewriting import FileStore, rewritten_without
from poisonadmin.archive.domain.pieces import APPEND_ONLY, TABLES
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import bounded, fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of, name, named_sql
from poisonadmin.decisions.commands.decisions import decide
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.messages.queries.counts import COUNTED
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import end_runs, request_run
from poisonadmin.runs.domain.kinds import QUOTING, KindName, RunKind
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.queries.archived import archived_where
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.store.models.run import LongRun

PIECE_MESSAGES = 1_000
MOST_COUNTED = 10_000
# `params`: `filter`, emptied at the end, for it may name a person; `reason`. `result`: ErasureResult. The position says
# nothing: which messages are left is asked anew each time.
ERASURE = RunKind(
    KindName.ERASE,
    noun="erasure",
    audited_as="erasure.{}",
    audited_object="erasure",
    first_phase="erasing",
    cancelled_by=None,
    max_tries=None,
    resumes_after=timedelta(minutes=1),
    alone_with="archive",
)

_DELETE_MESSAGES = str(
    named_sql(
        """
WITH gone AS (
    DELETE FROM message WHERE id = ANY(%(ids)s) RETURNING id, address_id, state, reason, group_id, original_address_id
), counted AS (
    INSERT INTO counter_delta ({counted}, delta) SELECT {counted}, -count(*) FROM gone GROUP BY {counted}
)
INSERT INTO erased_message (id, erasure_id, address_id) SELECT id, %(erasure)s, address_id FROM gone
""",
        counted=COUNTED,
    )
)
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


@dataclass(frozen=True)
class Erasable:
    """The numbers of messages that an erasure would erase and leave alone now, each counted to `MOST_COUNTED`."""

    live: int
    archived: int
    left_alone: int

    @property
    def erased(self) -> int:
        """Return how many it would erase."""
        return self.live + self.archived


class NotWhatWasSeen(PoisonAdminError):
    """Raised when an erasure would erase another number of messages than who asks for it has seen."""

    code = "erasure_count_mismatch"
    status = 409


def count_erasable(given: Filter, *, principal: Principal) -> Erasable:
    """Return what an erasure of what matches would do now. Errors: as `request_erasure`."""
    require_archivist(principal)
    asked = parse_filter(checked_filter(given, principal))
    holds = list(filters_in_force().values())
    with bounded():
        live = len(_live_ids(asked, holds, most=MOST_COUNTED))
        archived = len(_archived_ids(asked, holds, most=MOST_COUNTED))
        found = len(_live_ids(asked, [], is_any=True, most=MOST_COUNTED))
        found += len(_archived_ids(asked, [], most=MOST_COUNTED))
    return Erasable(live, archived, left_alone=found - live - archived)


def request_erasure(given: Filter, *, reason: str, principal: Principal, expected: int | None = None) -> StoredRun:
    """Have what matches now erased.

    What is under way is left alone, and so is what a legal hold names. A filter that the archive's index cannot answer
    is refused: it would leave archived messages behind. `expected`: how many `count_erasable` said.
    Errors: `NotAllowed`, `InvalidFilter`, `NothingNamed`, `Masked`, `QueryTooExpensive`, `NotWhatWasSeen`.
    """
    require_archivist(principal)
    texts = checked_filter(given, principal)
    archived_where(parse_filter(texts), SYSTEM)
    if expected is not None and (now := count_erasable(texts, principal=principal).erased) != expected:
        raise NotWhatWasSeen(f"It would erase {now:,} messages now, not {expected:,}; nothing was erased.")
    # The audit log does not get the filter: it may name the person.
    return request_run(ERASURE, {"filter": texts, "reason": reason}, principal=principal, note=reason)


def work(store: FileStore) -> RunWork:
    """Return the work of erasures."""
    return RunWork(ERASURE, partial(_erase, store))


def _erase(store: FileStore, turn: RunTurn) -> None:
    require_own_archive()
    rewriting.remove_former(store)
    run = turn.run
    asked = parse_filter(run.params["filter"])
    held = filters_in_force()
    holds = list(held.values())
    for ids_of, erase in ((_live_ids, _erase_live), (_archived_ids, _erase_archived)):
        while ids := ids_of(asked, holds):
            turn.report(ERASURE.first_phase, done=_erased(run))
            if turn.must_pause() or not erase(run, ids):
                return
    while rows := fetch_rows(_TO_REWRITE):
        turn.report("writing files anew", done=_erased(run))
        if turn.must_pause() or not rewritten_without(store, *rows[0]):
            return
    rewriting.remove_former(store)
    left = len(_live_ids(asked, [], is_any=True, most=MOST_COUNTED)) + len(_archived_ids(asked, []))
    with transaction.atomic(), connection.cursor() as cursor:
        totals = {"erased": _erased(run), "left_alone": left}
        held_by = [hold_id for hold_id, one in held.items() if left and _is_held(asked, one)]
        if totals["erased"]:
            end_runs(cursor, QUOTING, why="Messages were erased, which it may quote; ask for it again.")
        turn.finish({**totals, "held_by": held_by}, done=totals["erased"])
        # The filter has done its work.
        LongRun.objects.filter(id=run.run_id).update(params={**run.params, "filter": {}})
        audit.record(run.requested_by, "erasure.done", "erasure", str(run.id), details=totals)


def _erased(erasure: StoredRun) -> int:
    found: int = fetch_values("SELECT count(*) FROM erased_message WHERE erasure_id = %s", [erasure.id])[0]
    return found


def _live_ids(
    asked: MessageFilter, holds: Sequence[MessageFilter], *, is_any: bool = False, most: int = PIECE_MESSAGES
) -> list[int]:
    conditions = [compile_filter(asked, SYSTEM).whole, *(compile_filter(one, SYSTEM).whole.negated for one in holds)]
    if not is_any:
        conditions.append(Sql("m.state IN ('DLVD', 'FAIL', 'NDLV')"))
    return fetch_values(
        Sql(
            "SELECT m.id FROM message m WHERE {chosen} ORDER BY m.id LIMIT {most}",
            chosen=all_of(conditions),
            most=most,
        )
    )


def _archived_ids(asked: MessageFilter, holds: Sequence[MessageFilter], *, most: int = PIECE_MESSAGES) -> list[int]:
    held = [archived_where(one, SYSTEM, is_wide=True).negated for one in holds]
    return fetch_values(
        Sql(
            "SELECT r.id FROM archived_message r WHERE {chosen} ORDER BY r.id LIMIT {most}",
            chosen=all_of([archived_where(asked, SYSTEM), *held]),
            most=most,
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


def _erase_live(erasure: StoredRun, ids: Sequence[int]) -> bool:
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
                gone = Sql("DELETE FROM {table} WHERE {key} = ANY({ids})", table=name(table), key=name(key), ids=chosen)
                cursor.execute(*gone)
        _forget(cursor, values)
    return bool(chosen)


def _erase_archived(erasure: StoredRun, ids: Sequence[int]) -> bool:
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
