"""The preview says what the operation does then: the same checks, compared over random messages."""

import json
import random
from collections import Counter

import pytest
from django.db.models import Max

from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.decisions.commands import decisions as deciding
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import ACTIONS, OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import OperationPreview, preview
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import OperationResult
from tests.fixtures import decisions
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_destination

pytestmark = pytest.mark.django_db
WHY = {"principal": SYSTEM, "reason": "r"}
PARAMS = {
    OperationAction.REDIRECT: {"address": "orders.small"},
    OperationAction.ASSIGN: {"tags": {"add": ["eu"], "remove": ["new"]}},
    OperationAction.PATCH: {"json_patch": [{"op": "replace", "path": "/a", "value": "longer"}]},
}
LIMITED = principal("kim", Role.OPERATOR, ["orders.#", "*.dlq"])


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, `orders.small` small payloads only."""
    make_destination()
    save_policy("orders.small", preset=None, settings={"max_payload_bytes": 10}, destination=None, principal=SYSTEM)


def make(dice: random.Random) -> list[int]:
    """Make messages in all states, moved or not, on addresses that deliver or not, small and large."""
    addresses = ["orders.eu", "orders.small", "elsewhere.x", "orders.dlq", "elsewhere.dlq"]
    lines = []
    for _ in range(60):
        original = dice.choice([None, "orders.eu", "orders.small", "elsewhere.x"])
        known = {} if original is None else {"original_address": original}
        described = {"reason": "gave up", "exception_class": f"Error{dice.randint(1, 3)}", **known}
        payload = dice.choice(["x" * 5, "x" * 50, {"a": 1}, {"a": "x" * 50}, {"a": "longer"}, {"b": 1}])
        lines.append({"address": dice.choice(addresses), "payload": payload, "dead_letter": described})
    last = Message.objects.aggregate(last=Max("id"))["last"] or 0
    assert accept_stream([json.dumps(line).encode() + b"\n" for line in lines], principal=SYSTEM).accepted == 60
    ids = list(Message.objects.filter(id__gt=last).order_by("id").values_list("id", flat=True))
    for decision in (decisions.mark_fail, decisions.approve):
        decision(dice.sample(ids, 12), **WHY)
    Message.objects.filter(id__in=dice.sample(ids, 8), state="NDLV").update(reason="listed")
    Message.objects.filter(id__in=dice.sample(ids, 8), state="NDLV").update(candidate=True, crash_count=1)
    begin(freeze(ids=dice.sample(ids, 10), principal=SYSTEM), OperationAction.APPROVE, reason="r", principal=SYSTEM)
    decide_on(dice.sample(ids, 10), OperationAction.ASSIGN, params={"tags": {"add": ["eu"]}}, **WHY)
    return ids


@pytest.mark.parametrize("who", [SYSTEM, LIMITED], ids=["everything", "some addresses"])
@pytest.mark.parametrize("action", [one for one in ACTIONS if one != OperationAction.POSTPONE])
def test_the_preview_is_what_the_operation_does(
    action: OperationAction, who: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        monkeypatch.setattr(deciding, "LEAST_QUICK", 101 if seed == 1 else 1)
        ids = make(random.Random(f"{seed} {action}"))
        selection = get_selection(freeze(ids=ids, principal=who), principal=who)
        params = PARAMS.get(action)
        foreseen = preview(selection, action, principal=who, params=params)
        operation = begin(selection.id, action, reason="r", principal=who, params=params)
        assert_as_foreseen(foreseen, operation)


def assert_as_foreseen(foreseen: OperationPreview, operation: int) -> None:
    found = get_operation(operation, principal=SYSTEM)
    refused = Counter[tuple[str, str | None]]()
    for one in foreseen.refused:
        refused[one.code, one.detail] += one.count
    skipped = OperationResult.objects.filter(operation_id=operation, outcome="skipped")
    assert Counter(skipped.values_list("code", "detail")) == refused
    assert foreseen.accepted + sum(refused.values()) == foreseen.count == found.count
    assert foreseen.accepted == found.ledger.changed + found.ledger.unanswered
    assert sum(target.count for target in foreseen.targets) == foreseen.accepted
    if found.ledger.unanswered:
        now_at = Counter(
            Message.objects.filter(operation_id=operation, state="TBDL").values_list("address__name", flat=True)
        )
        delivered_to = Counter({one.address: one.count for one in foreseen.targets if one.has_destination})
        assert now_at == delivered_to


def test_what_crashed_its_consumer_is_counted_with_what_one_more_crash_does() -> None:
    ids = [take_dead() for _ in range(3)]
    Message.objects.filter(id__in=ids[:2]).update(candidate=True, crash_count=1)
    selection = get_selection(freeze(ids=ids, principal=SYSTEM), principal=SYSTEM)
    [crashed] = preview(selection, OperationAction.APPROVE, principal=SYSTEM).crashed
    assert (crashed.count, crashed.warning.crashes) == (2, 1)
    assert not preview(selection, OperationAction.FAIL, principal=SYSTEM).crashed
