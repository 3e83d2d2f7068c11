"""A redelivery from claim to settled: what the Spark worker asks for before and after its job."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from django.db import connection, transaction

from poisonadmin.core.commands import jobs
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due, claim_isolated, is_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import next_window
from poisonadmin.store.models.claim import Claim
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.job import JobKind


class ShardTally(Protocol):
    """What one shard came to for one destination (workers/delivery/shard.py)."""

    @property
    def destination_id(self) -> int: ...
    @property
    def claimed(self) -> int: ...
    @property
    def begun(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def transport_failures(self) -> int: ...
    @property
    def cause(self) -> str | None: ...


@dataclass(frozen=True)
class Redelivery:
    """A claim and the job that delivers it."""

    job_id: int
    claim: ClaimRef


def begin_redelivery(*, worker: str, tasks: int) -> Redelivery | None:
    """Claim what is due and create the job that delivers it; None when nothing can be taken now."""
    if not is_due():
        return None
    with transaction.atomic():
        claim = claim_isolated() or claim_due(tasks=tasks)
        if claim is None:
            return None
        phase = "trying candidates alone" if claim.is_isolation else "delivering"
        job_id = jobs.begin(JobKind.REDELIVER, worker=worker, params={"claim": claim.id}, phase=phase, total=claim.size)
        Claim.objects.filter(id=claim.id).update(job_id=job_id)
    return Redelivery(job_id, claim)


def finish_redelivery(redelivery: Redelivery, tallies: Iterable[ShardTally]) -> None:
    """Settle the claim, follow what each destination could do, and end the job."""
    each = list(tallies)
    settle(redelivery.claim.id)
    # What candidates do, one by one, says nothing of how much the destination can take.
    for destination_id in sorted({tally.destination_id for tally in each if not redelivery.claim.is_isolation}):
        _follow(destination_id, [tally for tally in each if tally.destination_id == destination_id])
    counts = {
        "claimed": redelivery.claim.size,
        "delivered": sum(tally.delivered for tally in each),
        "failed": sum(tally.failed for tally in each),
        "not_begun": sum(tally.claimed - tally.begun for tally in each),
    }
    jobs.succeed(redelivery.job_id, counts=counts, done=counts["delivered"] + counts["failed"])


def fail_redelivery(redelivery: Redelivery, error: str) -> None:
    """End the job with its error; `recover` gives back what it held."""
    jobs.fail(redelivery.job_id, error=error)


def stop_claims(worker: str) -> None:
    """Have the nodes of this worker's jobs begin nothing more."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE claim SET is_stopping = TRUE FROM job WHERE job.id = claim.job_id AND claim.is_open"
            " AND job.worker = %s",
            [worker],
        )


def _follow(destination_id: int, tallies: list[ShardTally]) -> None:
    """Set the destination's window.

    A change made meanwhile by another claim's end is overwritten, and made again soon.
    """
    destination = Destination.objects.only("window", "slowed_by").get(id=destination_id)
    causes = [tally.cause for tally in tallies if tally.cause]
    window, why = next_window(
        destination.window,
        claimed=sum(tally.claimed for tally in tallies),
        begun=sum(tally.begun for tally in tallies),
        transport_failures=sum(tally.transport_failures for tally in tallies),
        delivered=sum(tally.delivered for tally in tallies),
        **({"cause": causes[0]} if causes else {}),
    )
    if (window, why) != (destination.window, destination.slowed_by):
        Destination.objects.filter(id=destination_id, window=destination.window).update(window=window, slowed_by=why)
