"""B6: claiming and settling without delivering, against two bare UPDATEs and against procrastinate's worker."""

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from benchmarks import loads, procrastinate_peer
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import MAX_WINDOW
from poisonadmin.store.models.destination import Destination

NAME = "B6"
MESSAGES = 200_000
JOBS = 3_000

# What the tasks of a claim write while they deliver.
_OUTCOMES = """
INSERT INTO attempt (message_id, attempt_number, claim_id, shard, destination_id, started_at, finished_at, outcome,
                     status_code)
SELECT id, attempt_number, claim_id, shard, %(destination)s, now(), now(), 'delivered', 200
FROM message WHERE id IN (SELECT unnest(message_ids) FROM claim_shard WHERE claim_id = %(claim)s)
"""

_ENDED = """
INSERT INTO node (name, host, pid, claim_id, shard, lease_until, ended_at, "end")
SELECT 'bench', 'bench', 1, claim_id, shard, now(), now(), 'clean' FROM claim_shard WHERE claim_id = %(claim)s
"""

_BARE_CLAIM = """
UPDATE message SET state = 'DLNG', state_at = now(), attempt_number = attempt_number + 1, claim_id = 1, shard = 0
WHERE id = ANY(ARRAY(SELECT id FROM message WHERE lane_id = %(lane)s AND state = 'TBDL' AND due_at <= now()
                       AND due_at >= to_timestamp(%(floor)s) ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id, extract(epoch FROM due_at)::float8
"""
_BARE_SETTLE = "UPDATE message SET state = 'DLVD', state_at = now() WHERE id = ANY(%(ids)s) AND state = 'DLNG'"


def run(world: World) -> list[Line]:
    """Measure."""
    count = world.count(MESSAGES, least=2_000)
    jobs = world.count(JOBS)
    procrastinate_peer.prepare(world.services.database_url)
    loads.deliver_to("b6", "http://127.0.0.1:9/", concurrency=512)
    Destination.objects.filter(name="b6").update(window=MAX_WINDOW)
    say(f"  {count:,} messages in claims of {MAX_WINDOW:,}; {jobs:,} jobs of procrastinate")
    rates = alternate(
        [
            ("claim + settle", lambda: claim_and_settle(count)),
            ("two bare UPDATEs", lambda: bare_updates(count)),
            ("claim + outcomes + settle", lambda: claim_and_settle(count, with_outcomes=True)),
            ("procrastinate's worker", lambda: procrastinate_peer.work_off(world.services.database_url, jobs)),
        ],
        rounds=world.rounds,
        unit="messages",
    )
    loads.empty()
    bare = pairs_of(rates, "claim + settle", "two bare UPDATEs")
    written = pairs_of(rates, "claim + outcomes + settle", "two bare UPDATEs")
    worker = pairs_of(rates, "claim + outcomes + settle", "procrastinate's worker")
    return [
        compared(NAME, "claim + settle / two bare UPDATEs", bare, unit="messages", aim=0.55, limit=LIMIT),
        compared(NAME, "with its outcomes written / two bare UPDATEs", written, unit="messages"),
        compared(NAME, "with its outcomes written / procrastinate's worker", worker, unit="messages", aim=50),
    ]


LIMIT = "two history rows and their index entries a message"


def claim_and_settle(count: int, *, with_outcomes: bool = False) -> Rate:
    """Take `count` messages from TBDL to DLVD as the product does.

    Writing the outcomes is the delivery's work: its time counts only where `with_outcomes` says so.
    """
    _fill(count)
    watch, unwatched = Stopwatch(), Stopwatch()
    while True:
        with watch:
            claim = claim_due(tasks=2)
        if claim is None:
            break
        with watch if with_outcomes else unwatched:
            write_outcomes(claim, NAME.lower())
        with watch:
            settle(claim.id)
    assert loads.count_not("DLVD") == 0, "not every message was claimed and settled"
    return watch.rate(count)


def bare_updates(count: int) -> Rate:
    """Take `count` messages from TBDL to DLVD with nothing but an UPDATE each way."""
    _fill(count)
    watch = Stopwatch()
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT lane_id FROM message")
        (lane,) = cursor.fetchone()
        with watch:
            _update_twice(cursor, lane)
    assert loads.count_not("DLVD") == 0, "not every message was updated twice"
    return watch.rate(count)


def _update_twice(cursor: CursorWrapper, lane: int) -> None:
    floor = 0.0
    while True:
        with transaction.atomic():
            cursor.execute(_BARE_CLAIM, {"lane": lane, "limit": MAX_WINDOW, "floor": floor})
            rows = cursor.fetchall()
        if not rows:
            return
        floor = max(due_at for _, due_at in rows) - 0.001
        with transaction.atomic():
            cursor.execute(_BARE_SETTLE, {"ids": [message_id for message_id, _ in rows]})


def _fill(count: int) -> None:
    loads.empty()
    # Due times differ, as those of redeliveries do; the floor below which neither claim looks relies on it.
    loads.fill("b6.x", count, begin=loads.database_now() - 60, over_seconds=30)
    loads.settle_down()


def write_outcomes(claim: ClaimRef, destination_name: str) -> None:
    """Write that each message of the claim was delivered, and that its nodes have ended."""
    destination = Destination.objects.get(name=destination_name).id
    with connection.cursor() as cursor:
        cursor.execute(_OUTCOMES, {"claim": claim.id, "destination": destination})
        cursor.execute(_ENDED, {"claim": claim.id})
