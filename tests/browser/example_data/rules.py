"""Rules of every kind as an example: in force, ended, untried, and one that has switched itself off."""

from django.db.models import F
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.rules import commands
from poisonadmin.rules.commands import enable_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.store.models.failure_group import Annotation
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import Rule
from poisonadmin.store.models.run import LongRun

BEFORE = (
    RuleFields(
        name="Orders need an id and a sane total",
        match={
            "address": "orders.#",
            "headers": [{"name": "X-Tenant", "like": "no*"}],
            "json": [{"path": "$.order.id", "missing": True}, {"path": "$.order.total", "outside": {"min": 0}}],
        },
        action={"do": "reject", "tags": ["incomplete"]},
        note="Asked for by accounting: such an order is booked twice.",
        owner="orders team",
    ),
    RuleFields(
        name="Large bodies go to the slow lane",
        match={"size": {"min": 262_144}},
        action={"do": "redirect", "address": "slow"},
    ),
    RuleFields(
        name="Pushes are tagged", match={"content_type": "application/json*", "violates": {"required": ["order"]}},
        action={"do": "tag", "tags": ["push"]}, owner="platform",
    ),
)  # fmt: skip
AFTER = (
    RuleFields(
        name="Deadlocks go away by themselves",
        match={"exception_class": "*Deadlock*", "failures": {"max": 5}},
        action={"do": "retry", "delay_ms": 2000},
    ),
    RuleFields(
        name="A conflict is never solved by trying again",
        match={"status_code": {"min": 409, "max": 409}},
        action={"do": "park"},
        owner="orders team",
    ),
)


def make_rules() -> None:
    """Make the rules, and what a dry run of the first has found."""
    made = [commands.create_rule("before", fields, principal=SYSTEM) for fields in BEFORE]
    made += [commands.create_rule("after", fields, principal=SYSTEM) for fields in AFTER]
    for row in made[:1] + made[3:]:
        enable_rule(row.id, principal=SYSTEM, reason="as an example", override=True)
    Rule.objects.filter(id=made[0].id).update(hits=1_204, last_hit_at=timezone.now(), checked_version=F("version"))
    Rule.objects.filter(id=made[2].id).update(fault="it took 0.4 s for one message; 0.25 s are allowed")
    Rule.objects.filter(id=made[4].id).update(ends_at=timezone.now())
    messages = list(Message.objects.filter(state="NDLV").order_by("id")[:12])
    samples = [message.id for message in messages[:10]]
    places = [
        {"address": "orders.eu.created", "group_id": messages[0].group_id, "matched": 1204, "samples": samples},
        {"address": "orders.us.created", "group_id": None, "matched": 17, "samples": samples[:3]},
    ]
    LongRun.objects.create(
        kind="dry_run",
        state="succeeded",
        params={"rule_id": made[0].id, "rule_version": 1, "cut_off": messages[-1].id},
        position={},
        result={"read": 48_211, "matched": 1_221, "found": places},
        requested_by="admin",
        ended_at=timezone.now(),
    )
    Annotation.objects.create(message_id=messages[0].id, tags=["incomplete", "push"])
