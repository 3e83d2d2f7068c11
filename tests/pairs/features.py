"""The features of which two at a time meet on one operation, and what each of them makes of a scene."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from poisonadmin.decisions.operations.domain.actions import OperationAction

MEMBERS = 12
# Which member crashes its consumer, or fails, in the order in which they came in.
BAD_ONE = 5
# Those that their consumer may have processed.
REPLAYS = (4, 9)
RATE = 5.0


@dataclass
class Plan:
    """What is to happen on a scene; each feature changes a field or two.

    `died`: how the members came to wait for a decision. `actions`: the operations, one after the other; of two the
    first is cancelled in the middle. `interrupt`: what a person does while a member is under way. `then`: what becomes
    of the members when all is over. `awaits`: it waits for a version of its consumer. `guards`: it leaves alone what
    may have been processed, as two of the members may. `mistaken`: they were marked FAIL before, which was undone.
    `masks`: who operates may not read the payloads. `snoozes`: their failure groups are snoozed until they grow.
    """

    kind: str = "http"
    policy: dict[str, Any] = field(default_factory=lambda: {"max_delivery_attempts": 1, "redelivery_delay": 0})
    conversations: int = 0
    died: str = "dead letter"
    candidates: bool = False
    actions: list[tuple[OperationAction, dict[str, Any]]] = field(default_factory=list)
    rate_per_second: float | None = None
    has_canary: bool = False
    interrupt: str | None = None
    bad: str | None = None
    signs_off: bool = False
    by_job: bool = False
    awaits: bool = False
    guards: bool = False
    mistaken: bool = False
    masks: bool = False
    snoozes: bool = False
    then: list[str] = field(default_factory=list)


def _policy(**settings: Any) -> Callable[[Plan], None]:
    return lambda plan: plan.policy.update(settings)


def _fields(**values: Any) -> Callable[[Plan], None]:
    def change(plan: Plan) -> None:
        for name, value in values.items():
            setattr(plan, name, value)

    return change


def _order(plan: Plan) -> None:
    plan.policy["ordered"] = True
    plan.conversations = plan.conversations or 3


def _conversation(plan: Plan) -> None:
    """They are what a conversation held that has ended."""
    plan.policy["conversation_failure_limit"] = 1
    plan.conversations, plan.died = plan.conversations or 3, "conversation ended"


def _dead_letter_address(plan: Plan) -> None:
    """They were moved there, and what fails again is to be moved again."""
    plan.policy["dead_letter_address"] = "{scene}.dlq"
    plan.died = "moved" if plan.died == "dead letter" else plan.died
    plan.bad = plan.bad or "failed"


FEATURES: dict[str, Callable[[Plan], None]] = {
    "order": _order,
    "rate": _fields(rate_per_second=RATE),
    "canary": _fields(has_canary=True),
    "pause": lambda plan: setattr(plan, "interrupt", plan.interrupt or "pause"),
    "cancel": _fields(interrupt="cancel"),
    "patch": lambda plan: plan.actions.append(
        (OperationAction.PATCH, {"json_patch": [{"op": "replace", "path": "/a", "value": 2}]})
    ),
    "redirect": lambda plan: plan.actions.append((OperationAction.REDIRECT, {"address": "{scene}.us"})),
    "archive": lambda plan: plan.then.append("archive"),
    "hold": lambda plan: plan.then.insert(0, "hold"),
    "poison list": _fields(died="listed"),
    "conversation": _conversation,
    "crash": _fields(kind="handler", bad="crashed"),
    "candidate": _fields(kind="handler", candidates=True),
    "dead-letter address": _dead_letter_address,
    "restart job": _fields(by_job=True),
    "sign-off": _fields(signs_off=True),
    "awaited version": _fields(awaits=True, has_canary=True),
    "replay guard": _fields(guards=True),
    "undo": _fields(mistaken=True),
    "masking": _fields(masks=True),
    "snooze": _fields(snoozes=True),
}


def plan_of(*names: str) -> Plan:
    """Return the plan of a scene on which these features meet, whatever their order."""
    plan = Plan()
    for name in sorted(names):
        FEATURES[name](plan)
    plan.actions = plan.actions or [(OperationAction.APPROVE, {})]
    return plan
