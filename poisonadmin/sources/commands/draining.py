"""Broker sources: Spark drains their queues, and what is staged is merged here meanwhile.

A message is staged and committed before it is acknowledged, so what is staged is merged whatever becomes of its run:
of one that was killed by the next, of a source that is switched off or gone too.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.db import connection, connections
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from poisonadmin.core.commands.locks import alone
from poisonadmin.core.domain.errors import PoisonAdminError, error_text
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.intake.commands.merge import Merged, merge_staged
from poisonadmin.intake.domain.draining import Drained, batch_prefix, is_for_later
from poisonadmin.messages.domain.envelope_fields import storable
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.intake import BrokerReceipt, Source, SourceKind

_LEFT_OVER = """
SELECT DISTINCT split_part(batch, ':', 2)::bigint FROM staged_message WHERE batch LIKE 'broker:%%'
"""
_BATCHES = "SELECT batch FROM staged_message WHERE batch LIKE %s GROUP BY batch ORDER BY min(id)"
CountWaiting = Callable[[int], int | None]
"""Returns how many messages wait in a source's queues, None where nobody can say. Errors: a `PoisonAdminError` where
the broker cannot be asked, with a text for administrators."""
Drain = Callable[[int, Callable[[], bool]], Drained]
"""Stages what waits in a source's queues, under batches that `batch_prefix` begins, and acknowledges it; ends when they
are idle, after some ten seconds, or soon after the second argument says that it is to stop. A broker's trouble is in
`Drained.error`, with what was staged before it. Passed in, as `CountWaiting` is: workers import this package."""
RUNS_KEPT = timedelta(days=2)
# A broker that does not answer must not keep the others from their turn.
SOURCES_AT_ONCE = 4
MERGE_EVERY_SECONDS = 0.2
MOST_PATIENCE_SECONDS = 60
# After it the broker has noticed that whoever held a message without acknowledging it is gone, also with its machine.
RECEIPTS_KEPT = timedelta(minutes=10)
_TROUBLE = """
UPDATE source SET last_error = %(error)s, last_error_at = now(), failures = failures + 1,
    next_check_at = now() + LEAST(2 ^ LEAST(failures + 1, 10), %(most)s) * interval '1 s'
WHERE id = %(source)s
"""


class Merging:
    """Merges one source's batches, oldest first, and sums up what they came to."""

    def __init__(self, source_id: int, actor: str) -> None:
        self.merged = Merged()
        self._source_id = source_id
        self._actor = actor

    def everything(self) -> None:
        """Merge all that is staged; what has to wait for a delivery's outcome is looked at once."""
        for batch in self._batches():
            self._merge(batch)

    def new(self) -> bool:
        """Merge what has been staged since, without another check of what has to wait; return whether there was any."""
        found = [batch for batch in self._batches() if not is_for_later(batch)]
        for batch in found:
            self._merge(batch)
        return bool(found)

    def _merge(self, batch: str) -> None:
        self.merged += merge_staged(batch, actor=self._actor, source_id=self._source_id)

    def _batches(self) -> list[str]:
        return fetch_values(_BATCHES, [f"{batch_prefix(self._source_id)}%"])


def _sources_with_staged() -> set[int]:
    """Return the sources of which something is staged, also such as are gone."""
    return set(fetch_values(_LEFT_OVER))


def merge_left_over(source_id: int) -> Merged:
    """Merge what is staged of a source, whether it is enabled, disabled or gone; return what it came to.

    Nothing where somebody else is at it.
    """
    with alone(Lock.SOURCE, source_id) as is_alone:
        if not is_alone:
            return Merged()
        name = Source.objects.filter(id=source_id).values_list("name", flat=True).first() or str(source_id)
        merging = Merging(source_id, f"source {name}")
        merging.everything()
    return merging.merged


@dataclass(frozen=True)
class Drainer:
    """The functions with which a worker counts and drains the queues of sources."""

    count_waiting: CountWaiting
    drain: Drain
    worker: str
    heartbeat: RunHeartbeat | None = None
    is_stopping: Callable[[], bool] = lambda: False


def is_any_due() -> bool:
    """Return whether a broker source's turn has come, or something that was staged waits: two queries."""
    return _due().exists() or bool(_sources_with_staged())


def _due() -> QuerySet[Source]:
    is_due = Q(next_check_at__isnull=True) | Q(next_check_at__lte=Now())
    return Source.objects.filter(is_due, is_enabled=True).exclude(kind=SourceKind.DIRECTORY)


def drain_due(drainer: Drainer) -> None:
    """Take in what waits in each enabled broker source whose turn it is, and what former runs have staged.

    A source in trouble says so in its row, and is left alone for a while: twice as long each time, at most a minute.
    Errors: the last source's that failed of something else than its broker.
    """
    ids = set(_due().values_list("id", flat=True))
    left_over = _sources_with_staged() - ids
    with ThreadPoolExecutor(SOURCES_AT_ONCE, thread_name_prefix="drain") as threads:
        running = [threads.submit(_in_thread, partial(drain_source, one, drainer)) for one in sorted(ids)]
        running += [threads.submit(_in_thread, partial(merge_left_over, one)) for one in sorted(left_over)]
    errors = [error for error in (one.exception() for one in running) if error is not None]
    if errors:
        raise errors[-1]


def drain_source(source_id: int, drainer: Drainer) -> tuple[Drained, Merged] | None:
    """Take in what waits in the source; return what draining and merging came to, None where somebody else is at it.

    Errors: whatever is not its broker's trouble; the source and the job say so too.
    """
    with alone(Lock.SOURCE, source_id) as is_alone:
        source = Source.objects.filter(id=source_id, is_enabled=True).first() if is_alone else None
        if source is None:
            return None
        try:
            return _drain(source, drainer)
        except Exception as error:
            connection.close_if_unusable_or_obsolete()  # the error may be the database's
            if drainer.is_stopping():  # the error is the stop's doing
                return None
            _note_failure(source_id, _error_text(error))
            raise


def _drain(source: Source, drainer: Drainer) -> tuple[Drained, Merged]:
    # What cannot be merged is in the way of more: staged rows do not pile up behind it.
    merging = Merging(source.id, f"source {source.name}")
    merging.everything()
    try:
        waiting = drainer.count_waiting(source.id)
    except PoisonAdminError as error:
        _note_failure(source.id, error.detail)
        return Drained(is_empty=False, error=error.detail), merging.merged
    if waiting == 0:
        _note_success(source.id, lag=0)
        return Drained(), merging.merged
    drained = _as_a_job(source, merging, drainer, waiting)
    if drained.error is not None:
        _note_failure(source.id, drained.error)
    else:
        _note_success(source.id, lag=0 if drained.is_empty else _lag(drainer, source.id))
        if drained.is_empty:
            BrokerReceipt.objects.filter(source=source, stored_at__lt=Now() - RECEIPTS_KEPT).delete()
    return drained, merging.merged


def _as_a_job(source: Source, merging: Merging, drainer: Drainer, waiting: int | None) -> Drained:
    params = {"source": source.name, "broker": source.kind}
    job_id = worker_runs.begin(
        KindName.INGEST, worker=drainer.worker, params=params, phase="draining queues", total=waiting or None
    )
    if drainer.heartbeat:
        drainer.heartbeat.hold(job_id)
    try:
        drained = _staged_and_merged(source.id, merging, drainer, job_id)
    except Exception as error:
        connection.close_if_unusable_or_obsolete()
        end = worker_runs.cancel if drainer.is_stopping() else partial(worker_runs.fail, error=_error_text(error))
        end(job_id, counts=_counts(Drained(), merging.merged))
        raise
    finally:
        if drainer.heartbeat:
            drainer.heartbeat.release(job_id)
    counts = _counts(drained, merging.merged)
    if drained.error is not None:
        worker_runs.fail(job_id, error=drained.error, counts=counts)
    else:
        worker_runs.succeed(job_id, counts=counts, done=sum(counts.values()), kept=RUNS_KEPT)
    _count_into_source(source.id, drained)
    return drained


def _staged_and_merged(source_id: int, merging: Merging, drainer: Drainer, job_id: int) -> Drained:
    """Merge what is staged while more is being staged; the drain is waited for also when a merge fails."""
    stopping = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="staging") as thread:
        staging = thread.submit(drainer.drain, source_id, lambda: stopping.is_set() or drainer.is_stopping())
        try:
            while not wait([staging], timeout=MERGE_EVERY_SECONDS).done:
                if merging.new():
                    worker_runs.move(job_id, phase="draining queues", done=merging.merged.total)
        except BaseException:
            stopping.set()
            raise
    merging.new()
    return staging.result()


def _in_thread(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connections.close_all()  # this thread's


def _lag(drainer: Drainer, source_id: int) -> int | None:
    try:
        return drainer.count_waiting(source_id)
    except PoisonAdminError:
        return None  # it was there a moment ago; the next check will report the error


def _counts(drained: Drained, merged: Merged) -> dict[str, int]:
    return {
        "accepted": merged.accepted,
        "returned": merged.returned,
        "duplicates": merged.duplicates + drained.recognised,
        "rejected": merged.conflicts + drained.rejected,
    }


def _count_into_source(source_id: int, drained: Drained) -> None:
    """Count what no merge sees."""
    if drained.rejected or drained.recognised:
        Source.objects.filter(id=source_id).update(
            rejected=F("rejected") + drained.rejected, duplicates=F("duplicates") + drained.recognised
        )


def _note_success(source_id: int, *, lag: int | None) -> None:
    Source.objects.filter(id=source_id).update(
        lag=lag, checked_at=Now(), last_success_at=Now(), failures=0, next_check_at=None
    )


def _note_failure(source_id: int, error: str) -> None:
    """Write down the error and the time of the next check: after 2 s, 4 s, 8 s and so on."""
    with connection.cursor() as cursor:
        cursor.execute(_TROUBLE, {"source": source_id, "error": storable(error)[:4000], "most": MOST_PATIENCE_SECONDS})


def _error_text(error: Exception) -> str:
    return error.detail if isinstance(error, PoisonAdminError) else error_text(error)
