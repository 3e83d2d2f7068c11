"""Rules before and after deliveries, from the table to what becomes of messages, through tasks and settle."""

import json
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from poisonadmin.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.domain.rules import InvalidRule
from poisonadmin.operations import rules
from poisonadmin.operations.configure import VersionConflict
from poisonadmin.operations.rule_switch import NotDryRun, disable_rule, enable_rule
from poisonadmin.operations.rules import RuleFields
from poisonadmin.operations.settle import settle
from poisonadmin.queries.message_detail import get_message
from poisonadmin.queries.rules import RuleNotFound, get_rule, list_rules
from poisonadmin.store.models import Attempt, Audit, Hop, Message, MessageTag, Rule
from tests.operations.conftest import answer, claim, counted, counters, enqueue, make_shop, states
from tests.operations.test_oversize import last
from workers.delivery.shard import deliver_shard

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}
NEGATIVE = {"json": [{"path": "$.amount", "outside": {"min": 0}}]}


def rule(
    name: str,
    match: dict[str, Any],
    action: dict[str, Any] | str,
    *,
    stage: str = "before",
    is_on: bool = True,
    **more: Any,
) -> Rule:
    """Return a new rule, switched on."""
    does = {"do": action} if isinstance(action, str) else action
    row = rules.create_rule(stage, RuleFields(name, match, does, **more), principal=SYSTEM)
    return enable_rule(row.id, override=True, **WHY) if is_on else row


def order(amount: float, **fields: Any) -> int:
    """Take in an order and return its id."""
    [message_id] = enqueue(payload={"amount": amount}, **fields)
    return message_id


def deliver(url: str) -> None:
    """Claim what is due, run its tasks, settle."""
    taken = claim()
    for shard in taken.shards:
        deliver_shard(url, claim_id=taken.id, shard=shard)
    settle()


@pytest.fixture
def url(transactional_db: None, test_database_url: str) -> str:
    """Make the shop, at which nobody answers, and return the database that its tasks use."""
    make_shop(redelivery_delay=60_000)
    return test_database_url


def test_a_message_that_a_rule_rejects_is_not_delivered_and_no_failure(url: str) -> None:
    bad, good = order(-1), order(1)
    row = rule("no negative amounts", NEGATIVE, "reject")
    deliver(url)
    assert last(bad) == ("rejected", "NDLV", "rejected", "rule no negative amounts: reject")
    message = Message.objects.get(id=bad)
    assert (message.attempt_number, message.failure_count, message.failed_at, message.group) == (1, 0, None, None)
    attempt = Attempt.objects.get(message_id=bad)
    assert (attempt.outcome, attempt.rule_id, attempt.ruling, attempt.started_at) == ("ruled", row.id, "reject", None)
    assert last(good)[:2] == ("failed", "TBDL")
    row.refresh_from_db()
    assert row.hits == 1
    assert row.last_hit_at is not None
    assert counters() == counted()


def test_a_message_is_discarded_redirected_or_only_tagged(url: str) -> None:
    gone, elsewhere, tagged = order(1), order(2), order(3)
    ruled = [
        rule("one", {"json": [{"path": "$.amount", "equals": 1}]}, {"do": "discard", "tags": ["one"]}),
        rule("two", {"json": [{"path": "$.amount", "equals": 2}]}, {"do": "redirect", "address": "orders.odd"}),
        rule("three", {"json": [{"path": "$.amount", "equals": 3}]}, {"do": "tag", "tags": ["three", "odd"]}),
    ]
    deliver(url)
    assert last(gone) == ("rejected", "FAIL", "discarded_by_policy", "rule one: discard")
    assert last(elsewhere) == ("redirected", "TBDL", None, "rule two: redirect")
    moved = Message.objects.get(id=elsewhere)
    assert (moved.address.name, moved.original_address.name) == ("orders.odd", "orders.eu")  # type: ignore[union-attr]
    assert list(Hop.objects.values_list("message_id", "from_address", "to_address")) == [
        (elsewhere, "orders.eu", "orders.odd")
    ]
    assert last(tagged)[:2] == ("failed", "TBDL"), "it was delivered, to nobody"
    assert dict(MessageTag.objects.values_list("message_id", "tags")) == {gone: ["one"], tagged: ["odd", "three"]}
    assert get_message(tagged, principal=SYSTEM).tags == ["odd", "three"]
    assert list(Rule.objects.order_by("id").values_list("hits", flat=True)) == [1, 1, 1]
    assert [row.id for row in list_rules(principal=SYSTEM)] == [row.id for row in ruled]


def test_a_message_that_is_tried_again_is_tagged_and_counted_once(url: str) -> None:
    order(3)
    row = rule("three", {}, {"do": "tag", "tags": ["three"]})
    for _ in range(3):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE lane SET next_due = now()")
            cursor.execute("UPDATE message SET due_at = now()")
        deliver(url)
    assert Attempt.objects.count() == 3
    row.refresh_from_db()
    assert row.hits == 1


def test_a_rule_holds_for_what_waited_already_until_it_ends_or_is_switched_off(url: str) -> None:
    for switch in ("end", "off", "delete", None):
        message = order(-1)
        row = rule(f"until {switch}", NEGATIVE, "reject")
        if switch == "end":
            Rule.objects.filter(id=row.id).update(ends_at=Now())
        elif switch == "off":
            disable_rule(row.id, **WHY)
        elif switch == "delete":
            rules.delete_rule(row.id, principal=SYSTEM)
        deliver(url)
        assert states([message]) == ["NDLV" if switch is None else "TBDL"], switch


def test_the_order_of_the_table_decides(url: str) -> None:
    first, second = rule("first", {}, "discard"), rule("second", {}, "reject")
    rules.move_rule(second.id, 1, principal=SYSTEM)
    assert [row.name for row in list_rules(principal=SYSTEM)] == ["second", "first"]
    message = order(1)
    deliver(url)
    assert last(message)[:3] == ("rejected", "NDLV", "rejected")
    first.refresh_from_db()
    assert first.hits == 0


@pytest.mark.parametrize(
    "match",
    [
        {"violates": {"$ref": "http://example.com/schema"}},
        {"json": [{"path": "nonsense", "present": True}]},
        {"size": 3},
    ],
)
def test_a_broken_rule_switches_itself_off_and_stops_no_delivery(url: str, match: dict[str, Any]) -> None:
    broken = rule("broken", {}, "reject")
    Rule.objects.filter(id=broken.id).update(match=match)
    after = rule("after it", NEGATIVE, "reject")
    bad, good = order(-1), order(1)
    deliver(url)
    assert [last(one)[0] for one in (bad, good)] == ["rejected", "failed"]
    broken.refresh_from_db()
    assert (broken.is_enabled, broken.hits) == (False, 0)
    assert "cannot be compiled" in str(broken.fault)
    said = Audit.objects.get(action="rule.switched_off")
    assert (said.actor, said.object_id, said.note) == ("system", "broken", broken.fault)
    after.refresh_from_db()
    assert after.is_enabled
    assert enable_rule(broken.id, override=True, **WHY).fault is None


def test_a_rule_that_is_too_slow_switches_itself_off_and_stops_no_delivery(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poisonadmin.domain.content_rules.SLOW_SECONDS", -1.0)
    slow = rule("slow", NEGATIVE, "reject")
    message = order(-1)
    deliver(url)
    assert last(message)[0] == "failed"
    slow.refresh_from_db()
    assert (slow.is_enabled, slow.hits) == (False, 0)
    assert "for one message" in str(slow.fault)
    assert Audit.objects.filter(action="rule.switched_off").count() == 1


def test_what_is_rejected_of_an_ordered_conversation_holds_what_follows(url: str) -> None:
    make_shop(ordered=True)
    bad, held = order(-1, conversation_id="c"), order(1, conversation_id="c")
    loose, dropped, follows = order(1), order(0, conversation_id="d"), order(1, conversation_id="d")
    rule("no negative amounts", NEGATIVE, "reject")
    rule("nothing", {"json": [{"path": "$.amount", "equals": 0}]}, "discard")
    deliver(url)
    assert states([bad, dropped]) == ["NDLV", "FAIL"]
    assert last(held)[:2] == ("released", "TBDL")
    assert [last(one)[0] for one in (loose, follows)] == ["failed", "failed"]


def test_redirections_that_go_round_end_with_an_administrator(url: str) -> None:
    message = order(1)
    rule("there", {"address": "orders.eu"}, {"do": "redirect", "address": "orders.us"})
    rule("back", {"address": "orders.us"}, {"do": "redirect", "address": "orders.eu"})
    for _ in range(33):
        deliver(url)
    assert last(message) == ("redirected", "NDLV", "rule", "rule back: redirect") or last(message) == (
        "redirected",
        "NDLV",
        "rule",
        "rule there: redirect",
    )
    assert Hop.objects.filter(message_id=message).count() == 32


FAILED: dict[str, Any] = {"error_class": "HandlerError", "cause_class": "DeadlockDetected", "status_code": 503}


@pytest.mark.parametrize(
    ("action", "state", "reason", "event"),
    [
        ({"do": "retry", "delay_ms": 3_600_000}, "TBDL", None, "failed"),
        ({"do": "park"}, "NDLV", "rule", "failed"),
        ({"do": "fail"}, "FAIL", "discarded_by_policy", "failed"),
        ({"do": "redirect", "address": "orders.slow"}, "TBDL", None, "moved"),
        ({"do": "end_conversation"}, "FAIL", "conversation_ended", "failed"),
    ],
)
def test_a_failure_rule_overrides_the_policy(
    shop: str, action: dict[str, Any], state: str, reason: str | None, event: str
) -> None:
    row = rule("deadlocks", {"exception_class": "Deadlock*", "destination": "sh*"}, action, stage="after")
    hit, missed = enqueue(2, conversation_id="c")
    taken = claim()
    answer([hit], "failed", destination_id=destination_id(), **FAILED)
    settle()
    message = Message.objects.get(id=hit)
    assert last(hit) == (event, state, reason, f"rule deadlocks: {action['do']}")
    assert message.failure_count == (0 if event == "moved" else 1)
    assert message.group is not None, "it is a failure all the same"
    if action["do"] == "retry":
        with connection.cursor() as cursor:
            cursor.execute("SELECT due_at - state_at = interval '1 hour' FROM message WHERE id = %s", [hit])
            assert cursor.fetchone()[0]
    answer([missed], "failed", destination_id=destination_id())
    settle(taken.id)
    assert last(missed)[3] is None
    row.refresh_from_db()
    assert row.hits == 1
    assert counters() == counted()


def destination_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM destination")
        found: int = cursor.fetchone()[0]
    return found


def test_a_failure_rule_may_ask_for_tags_and_counts(shop: str) -> None:
    rule("odd ones", {"tags": ["odd"], "failures": {"min": 2}}, "park", stage="after")
    odd, plain = enqueue(2)
    MessageTag.objects.create(message_id=odd, tags=["large", "odd"])
    for expected in ("TBDL", "NDLV"):
        claim()
        answer([odd, plain], "failed")
        settle()
        assert states([odd, plain]) == [expected, "TBDL"]


@pytest.mark.parametrize("broken", [{"status_code": {"min": "many"}}, {"size": {"min": 1}}, {"message": 4}])
def test_a_broken_failure_rule_switches_itself_off_and_stops_no_verdict(shop: str, broken: dict[str, Any]) -> None:
    row = rule("broken", {}, "fail", stage="after")
    Rule.objects.filter(id=row.id).update(match=broken)
    rule("next", {}, "park", stage="after")
    [message] = enqueue()
    claim()
    answer([message], "failed", status_code=503)
    settle()
    assert last(message) == ("failed", "NDLV", "rule", "rule next: park")
    row.refresh_from_db()
    assert not row.is_enabled
    assert "cannot be compiled" in str(row.fault)
    assert Audit.objects.filter(action="rule.switched_off", object_id="broken").count() == 1


def test_a_crash_is_no_rule_s_business(shop: str) -> None:
    rule("everything", {}, "fail", stage="after")
    [message] = enqueue()
    claim()
    answer([message], "crashed", error_class="HandlerKilled", fingerprint="c" * 16, title="x")
    settle()
    assert last(message)[:2] == ("crashed", "TBDL")


def test_a_rule_before_deliveries_is_switched_on_only_when_it_was_dry_run(db: None) -> None:
    row = rule("careful", NEGATIVE, "reject", is_on=False)
    with pytest.raises(NotDryRun):
        enable_rule(row.id, **WHY)
    Rule.objects.filter(id=row.id).update(checked_version=row.version)
    assert enable_rule(row.id, **WHY).is_enabled
    assert Audit.objects.filter(action="rule.enabled").latest("id").details["without_dry_run"] is False

    noted = rules.replace_rule(row.id, RuleFields("careful", NEGATIVE, {"do": "reject"}, note="why"), principal=SYSTEM)
    assert (noted.is_enabled, noted.checked_version, noted.version) == (True, 2, 2), "it does the same as before"
    changed = rules.replace_rule(row.id, RuleFields("careful", {}, {"do": "reject"}), principal=SYSTEM)
    assert (changed.is_enabled, changed.checked_version) == (False, None)
    with pytest.raises(NotDryRun):
        enable_rule(row.id, **WHY)
    assert enable_rule(row.id, override=True, **WHY).is_enabled
    said = Audit.objects.filter(action="rule.enabled").latest("id")
    assert (said.note, said.details["without_dry_run"]) == ("test", True)


def test_a_rule_is_saved_only_as_it_was_read(db: None) -> None:
    row = rule("once", {}, "reject", is_on=False)
    with pytest.raises(VersionConflict):
        rules.replace_rule(row.id, RuleFields("once", {}, {"do": "discard"}), principal=SYSTEM, expected_version=2)
    with pytest.raises(rules.RuleExists):
        rule("once", {}, "reject")
    other = rule("other", {}, "reject", is_on=False)
    with pytest.raises(rules.RuleExists):
        rules.replace_rule(other.id, RuleFields("once", {}, {"do": "reject"}), principal=SYSTEM)
    with pytest.raises(InvalidRule, match=r"match\.violates: .*leads out"):
        rule("bad", {"violates": {"$ref": "http://example.com/"}}, "reject")
    with pytest.raises(InvalidRule, match="name"):
        rule("  ", {}, "reject")
    said = [json.dumps(row.details) for row in Audit.objects.filter(object_type="rule")]
    assert len(said) == 2, "what was refused is not in the log"


def test_who_is_limited_to_some_addresses_rules_over_no_others(db: None) -> None:
    limited = principal("pat", Role.ADMIN, ["orders.#"])
    everywhere = rule("everywhere", {}, "reject", is_on=False)
    own = rules.create_rule("before", RuleFields("own", {"address": "orders.*"}, {"do": "reject"}), principal=limited)
    assert own.owner == "pat"
    assert [row.name for row in list_rules(principal=limited)] == ["own"]
    with pytest.raises(RuleNotFound):
        get_rule(everywhere.id, principal=limited)
    with pytest.raises(RuleNotFound):
        disable_rule(everywhere.id, principal=limited, reason="x")
    with pytest.raises(NotAllowed):
        rules.create_rule("before", RuleFields("all", {}, {"do": "reject"}), principal=limited)
    leads_out = RuleFields("out", {"address": "orders.*"}, {"do": "redirect", "address": "elsewhere"})
    with pytest.raises(NotAllowed):
        rules.create_rule("before", leads_out, principal=limited)
    with pytest.raises(NotAllowed):
        rules.move_rule(own.id, 1, principal=limited)
    with pytest.raises(NotAllowed):
        enable_rule(own.id, principal=principal("vi", Role.OPERATOR), reason="x")
