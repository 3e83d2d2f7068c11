"""A redelivery from claim to settled: what the Spark worker asks for before and after its tasks deliver."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction

from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import DestinationTally, next_window
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.claim import Claim
from poisonadmin.store.models.destination import Destination

# The attempts keep what was delivered when and to whom.
RUNS_KEPT = timedelta(days=2)


@dataclass(frozen=True)
class ShardsLeft:
    """Counts of a claim's shards: those without a node that has ended, and those without any node.

    `beginning`: how many have one that may still begin deliveries.
    """

    unended: int
    untaken: int
    beginning: int


@dataclass(frozen=True)
class Redelivery:
    """A claim and the job that delivers it."""

    job_id: int
    claim: ClaimRef


_SHARDS_LEFT = """
SELECT claim_id, count(*) FILTER (WHERE node.ended_at IS NULL), count(*) FILTER (WHERE node.id IS NULL),
       count(*) FILTER (WHERE node.ended_at IS NULL AND NOT node.waits)
FROM claim_shard LEFT JOIN node USING (claim_id, shard) WHERE claim_id = ANY(%(claims)s) GROUP BY claim_id
"""
_TALLIES = """
SELECT destination_id, sum(tally.claimed), sum(tally.begun), sum(delivered), sum(failed), sum(transport_failures),
       mode() WITHIN GROUP (ORDER BY cause), coalesce(sum(seconds), 0),
       sum((plan->destination_id::text->>'slots')::int)
FROM node JOIN claim ON claim.id = claim_id CROSS JOIN LATERAL jsonb_to_recordset(tallies) AS tally(
    destination_id bigint, claimed int, begun int, delivered int, failed int, transport_failures int, cause text,
    seconds float8)
WHERE claim_id = %(claim)s GROUP BY destination_id ORDER BY destination_id
"""


def begin_redelivery(*, worker: str, tasks: int) -> Redelivery | None:
    """Claim what is due and create the job that delivers it; None when nothing can be taken now."""
    with transaction.atomic():
        claim = claim_isolated() or claim_due(tasks=tasks)
        if claim is None:
            return None
        phase = "trying candidates alone" if claim.is_isolation else "delivering"
        job_id = worker_runs.begin(
            KindName.REDELIVER, worker=worker, params={"claim": claim.id}, phase=phase, total=claim.size
        )
        Claim.objects.filter(id=claim.id).update(job_id=job_id)
    return Redelivery(job_id, claim)


def shards_left(redeliveries: Collection[Redelivery]) -> list[tuple[Redelivery, ShardsLeft]]:
    """Return what is left of each of the redeliveries."""
    rows = fetch_rows(_SHARDS_LEFT, {"claims": [one.claim.id for one in redeliveries]})
    left = {claim_id: ShardsLeft(*counts) for claim_id, *counts in rows}
    return [(one, left.get(one.claim.id, ShardsLeft(0, 0, 0))) for one in redeliveries]


def finish_redelivery(redelivery: Redelivery) -> None:
    """Settle a claim whose nodes have ended, follow what each destination could do, and end the job."""
    settle(redelivery.claim.id)
    tallies = [DestinationTally(*row) for row in fetch_rows(_TALLIES, {"claim": redelivery.claim.id})]
    # What candidates do, one by one, says nothing of how much the destination can take.
    for tally in tallies if not redelivery.claim.is_isolation else ():
        _follow(tally)
    counts = {
        "claimed": redelivery.claim.size,
        "delivered": sum(tally.delivered for tally in tallies),
        "failed": sum(tally.failed for tally in tallies),
        "not_begun": sum(tally.claimed - tally.begun for tally in tallies),
    }
    worker_runs.succeed(redelivery.job_id, counts=counts, done=counts["delivered"] + counts["failed"], kept=RUNS_KEPT)


def fail_redelivery(redelivery: Redelivery, error: str) -> None:
    """End the job with its error; `recover` gives back what it held."""
    worker_runs.fail(redelivery.job_id, error=error)


def stop_claims(worker: str) -> None:
    """Have the nodes of this worker's jobs begin nothing more."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE claim SET is_stopping = TRUE FROM run WHERE run.id = claim.job_id AND claim.is_open"
            " AND NOT claim.is_stopping AND run.worker = %s",
            [worker],
        )


def _follow(tally: DestinationTally) -> None:
    """Set the destination's window.

    A change made meanwhile by another claim's end is overwritten, and made again soon.
    """
    destination = Destination.objects.only("window", "slowed_by").get(id=tally.destination_id)
    window, why = next_window(destination.window, tally)
    if (window, why) != (destination.window, destination.slowed_by):
        Destination.objects.filter(id=tally.destination_id, window=destination.window).update(
            window=window, slowed_by=why
        )
