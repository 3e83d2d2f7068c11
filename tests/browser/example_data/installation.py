"""A busy installation to test pages on: real payloads, invented failures, every state, some decisions.

Everything goes through the commands, so that counters, history and groups agree; only the attempts are written here,
as a node would, and the times are spread over the last hour.
"""

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from poisonadmin.addresses.commands import pause
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.destinations.commands import save_destination
from poisonadmin.groups.domain import failures
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.messages.commands.counts import fold
from poisonadmin.policies.commands import save_policy
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.claim import Claim, Node, NodeEnd
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.browser.example_data.alerts import make_alerts
from tests.browser.example_data.brokers import make_brokers
from tests.browser.example_data.crashes import make_crashes
from tests.browser.example_data.groups import annotate_groups
from tests.browser.example_data.past import make_source, spread_over_the_last_hour
from tests.browser.example_data.policies import RETURNS, make_policies
from tests.browser.example_data.rules import make_rules
from tests.browser.example_data.stacks import STACKS
from tests.fixtures import decisions

SAMPLE = Path(__file__).resolve().parents[3] / "sample" / "github-webhooks.ndjson"
OPERATOR = principal("mara", Role.OPERATOR)
DICE_SEED = 20261120

DESTINATIONS = {
    "webhook-relay": {"url": "https://relay.example.org/hooks", "concurrency": 64},
    "billing": {"url": "https://billing.example.org/v2/events", "timeout_ms": 10_000, "headers": {"X-Team": "billing"}},
    "warehouse": {"url": "https://warehouse.example.org/intake", "method": "PUT", "concurrency": 8},
}
POLICIES: tuple[tuple[str, str | None, dict[str, object], str | None], ...] = (
    (
        "github.#",
        "artemis",
        {"redelivery_delay": 60_000, "max_redelivery_delay": 900_000, "on_exhausted": "park"},
        "webhook-relay",
    ),
    ("github.pull_request", None, {"redelivery_delay": 0, "max_delivery_attempts": 2}, None),
    ("github.issues", None, {"redelivery_delay": 0, "max_delivery_attempts": 1}, None),
    ("orders.#", None, {"redelivery_delay": 30_000, "max_delivery_attempts": 5}, "billing"),
    ("orders.eu.*", None, {"redelivery_delay": 0, "max_delivery_attempts": 1}, None),
    ("warehouse.#", "websphere", {}, "warehouse"),
    ("labels.#", "sap", {}, "label-printer"),
    ("returns.*", None, RETURNS, "warehouse"),
)
# What becomes of the deliveries from an address: which failure, and how many of a hundred deliveries meet it.
FAILURES = {
    "github.pull_request": ("pydantic", 60),
    "github.issues": ("java_null", 45),
    "github.check_run": ("timeout", 70),
    "github.release": ("http_503", 100),
    "orders.eu.created": ("dotnet", 55),
    "orders.eu.refunded": ("sql", 80),
    "orders.us.created": ("http_503", 30),
    "warehouse.stock": ("node", 40),
    "returns.eu": ("http_503", 100),
    "returns.us": ("timeout", 100),
}


def fill_database(*, rounds: int = 3) -> None:
    """Fill an empty database."""
    dice = random.Random(DICE_SEED)
    _configure()
    for fields in _envelopes(dice):
        accept(parse_envelope(fields), principal=SYSTEM, received_by="api")
    for number in range(rounds):
        _deliver(dice, number)
    _leave_some_in_delivery(dice)
    _decide(dice)
    make_source()
    make_crashes()
    make_policies()
    _ask_for_sign_offs()
    make_rules()
    make_brokers()
    fold()
    make_alerts()
    spread_over_the_last_hour()
    annotate_groups()


def _configure() -> None:
    for name, config in DESTINATIONS.items():
        secrets = {"Authorization": "Bearer of-the-example"} if name == "billing" else None
        save_destination(name, kind="http", config=config, secrets=secrets, max_rate_per_second=None, principal=SYSTEM)
    # Saved past the operation, which wants its module to be there.
    Destination.objects.create(name="label-printer", kind="handler", config={"callable": "labels:render"})
    for match, preset, settings, destination in POLICIES:
        save_policy(match, preset=preset, settings=settings, destination=destination, principal=SYSTEM)


def _envelopes(dice: random.Random) -> Iterator[dict[str, object]]:
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)
    for number in range(140):
        address = dice.choice(("orders.eu.created", "orders.eu.refunded", "orders.us.created", "warehouse.stock"))
        yield {
            "address": address,
            "message_id": f"{address.split('.')[-1]}-{number:05d}",
            "conversation_id": f"customer-{dice.randrange(40)}",
            "headers": {"X-Tenant": dice.choice(("north", "south")), "X-Trace-Id": f"{dice.getrandbits(64):016x}"},
            "payload": {
                "order": {"id": 10_000 + number, "total": f"{dice.random() * 400:.2f}", "currency": "EUR"},
                "lines": [{"sku": f"SKU-{dice.randrange(900)}", "quantity": dice.randrange(1, 5)} for _ in range(3)],
                "paid": dice.random() < 0.7,
            },
        }
    for number in range(8):
        yield {
            "address": ("returns.eu", "returns.us")[number % 2],
            "message_id": f"return-{number}",
            "headers": {"X-Tenant": "north"},
            "payload": {"order": {"id": 10_000 + number}, "why": "broken"},
        }
    # Names as long as they may be must not push anything out of sight.
    yield {
        "address": f"{'w' * 60}.{'x' * 120}.y",
        "message_id": "z" * 255,
        "conversation_id": "c" * 255,
        "headers": {"X-" + "h" * 100: "v" * 500},
        "payload": {"k" * 300: "v" * 900},
        "dead_letter": {"reason": "r" * 200, "exception_class": "E" * 200, "exception_message": "m" * 3000},
    }
    for number in range(12):
        stack = STACKS[("java_null", "sql", "dotnet")[number % 3]]
        yield {
            "address": "legacy.invoices",
            "message_id": f"invoice-{number}",
            "payload": f"<invoice number='{number}'><total>12.5O</total></invoice>",
            "content_type": "application/xml",
            "dead_letter": {
                "reason": "MaxDeliveryAttemptsReached",
                "exception_class": stack.exception_class,
                "exception_message": stack.message.format(n=4711 + number),
                "stack": stack.text,
                "original_address": "orders.us.created",
                "delivery_count": 10,
            },
        }


def _deliver(dice: random.Random, number: int) -> None:
    job = worker_runs.begin(KindName.REDELIVER, worker="spark-redelivery@host", params={}, phase="delivering")
    taken = claim_due(tasks=4)
    if taken is None:
        worker_runs.succeed(job, counts={})
        return
    Claim.objects.filter(id=taken.id).update(job_id=job)
    for shard in taken.shards:
        _node(taken, shard, NodeEnd.CLEAN)
    rows = [_attempt(dice, message) for message in _taken(taken)]
    Attempt.objects.bulk_create(rows)
    settle(taken.id)
    failed = sum(row.outcome == "failed" for row in rows)
    counts = {"claimed": taken.size, "delivered": len(rows) - failed, "failed": failed}
    if number == 1:
        worker_runs.fail(
            job,
            error="The destination 'warehouse' did not answer within 30 s; 12 messages were put back.",
            counts=counts,
        )
    else:
        worker_runs.succeed(job, counts=counts, done=taken.size)


def _leave_some_in_delivery(dice: random.Random) -> None:
    for number in range(24):
        accept(
            parse_envelope({"address": "github.push", "message_id": f"late-{number}", "payload": {"ref": "main"}}),
            principal=SYSTEM,
            received_by="api",
        )
    job = worker_runs.begin(KindName.REDELIVER, worker="spark-redelivery@host", params={}, phase="delivering", total=24)
    taken = claim_due(tasks=2)
    assert taken is not None
    Claim.objects.filter(id=taken.id).update(job_id=job)
    for shard in taken.shards:
        _node(taken, shard, None)
    Attempt.objects.bulk_create([_attempt(dice, message) for message in _taken(taken)[:10]])
    settle(taken.id)
    LongRun.objects.filter(id=job).update(done=10)
    Claim.objects.filter(id=taken.id).update(lease_until=timezone.now() + timedelta(hours=1))


def _taken(taken: ClaimRef) -> list[Message]:
    return list(Message.objects.filter(state="DLNG").select_related("address").order_by("id"))


def _node(taken: ClaimRef, shard: int, end: NodeEnd | None) -> None:
    now = timezone.now()
    Node.objects.create(
        name=f"spark-{taken.id}-{shard}",
        host="worker-1",
        pid=4000 + taken.id * 10 + shard,
        claim_id=taken.id,
        shard=shard,
        heartbeat_at=now,
        lease_until=now + timedelta(minutes=1),
        ended_at=now if end else None,
        end=end,
        begun=taken.size // len(taken.shards),
    )


def _attempt(dice: random.Random, message: Message) -> Attempt:
    now = timezone.now()
    row = Attempt(
        message_id=message.id,
        attempt_number=message.attempt_number,
        claim_id=message.claim_id,
        shard=message.shard,
        destination_id=message.address.destination_id,
        started_at=now - timedelta(milliseconds=dice.randrange(20, 900)),
        finished_at=now,
        outcome="delivered",
        status_code=204,
    )
    name, share = FAILURES.get(message.address.name, ("http_503", 4))
    if dice.randrange(100) >= share:
        return row
    stack = STACKS[name]
    failure = Failure(stack.exception_class, stack.message.format(n=message.id), stack.cause_class, (), stack.text)
    row.outcome = "failed"
    row.status_code = stack.status_code
    row.error_class, row.cause_class, row.error_message = failure.exception_class, failure.cause_class, failure.message
    row.stack = stack.text or None
    row.fingerprint, row.title = failures.fingerprint(failure), failures.title(failure)[:300]
    row.response = stack.response
    return row


def _decide(dice: random.Random) -> None:
    undecided = list(Message.objects.filter(state="NDLV").order_by("id").values_list("id", flat=True))
    dice.shuffle(undecided)
    say = _says(OPERATOR)
    say(decisions.approve, undecided[:5], "The parser was repaired in release 4.2; deliver them again.")
    say(decisions.mark_fail, undecided[5:9], "Test orders of the load test, nobody waits for them.")
    waiting = list(Message.objects.filter(state="TBDL", due_at__gt=timezone.now()).values_list("id", flat=True)[:3])
    say(decisions.quarantine, waiting[:1], "Asked the team that sends it whether the amount is right.")
    say(decisions.deliver_now, waiting[1:2], "The consumer is back.")
    pause("github.fork", principal=OPERATOR, reason="Maintenance of the fork service until noon.")


def _ask_for_sign_offs() -> None:
    # Limits of actions that change nothing here: what is undecided cannot be quarantined.
    save_sign_off_rule("github.#", OperationAction.QUARANTINE, above=1, principal=SYSTEM)
    undecided = {"address": ["github.#"], "state": ["NDLV"]}
    for who, reason in ((OPERATOR, "Asked the team that sends them."), (SYSTEM, "The relay is down.")):
        begin(
            undecided,
            OperationAction.QUARANTINE,
            reason=reason,
            principal=who,
            terms=OperationTerms(break_glass=who is SYSTEM),
        )


def _says(who: Principal):  # type: ignore[no-untyped-def]
    return lambda act, ids, reason: act(ids, principal=who, reason=reason)
