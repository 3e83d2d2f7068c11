"""Rules before deliveries: what a task that asks them makes of its messages."""

from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.rules import commands
from poisonadmin.rules.commands import disable_rule, enable_rule
from poisonadmin.rules.queries import list_rules
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.failure_group import Annotation
from poisonadmin.store.models.message import Hop, Message
from poisonadmin.store.models.rule import Rule
from tests.fixtures.delivery import claim, counted, counters, enqueue, make_destination, run_shards, states
from tests.messages.test_oversize import last
from tests.rules.ruled import NEGATIVE, WHY, rule


def order(amount: float, **fields: Any) -> int:
    """Take in an order and return its id."""
    [message_id] = enqueue(payload={"amount": amount}, **fields)
    return message_id


def deliver(url: str) -> None:
    """Claim what is due, run its tasks, settle."""
    taken = claim()
    run_shards(url, taken)
    settle()


@pytest.fixture
def url(transactional_db: None, test_database_url: str) -> str:
    """Make the shop, at which nobody answers, and return the database that its tasks use."""
    make_destination(redelivery_delay=60_000)
    return test_database_url


def test_a_message_that_a_rule_rejects_is_not_delivered_and_no_failure(url: str) -> None:
    bad, good = order(-1), order(1)
    row = rule("no negative amounts", NEGATIVE, "reject")
    deliver(url)
    assert last(bad) == ("rejected", "NDLV", "rejected", "rule no negative amounts: reject")
    message = Message.objects.get(id=bad)
    assert (message.attempt_number, message.failure_count, message.failed_at, message.group) == (1, 0, None, None)
    attempt = Attempt.objects.get(message_id=bad)
    assert (attempt.outcome, attempt.rule_id, attempt.rule_action, attempt.started_at) == (
        "ruled",
        row.id,
        "reject",
        None,
    )
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
    assert dict(Annotation.objects.values_list("message_id", "tags")) == {gone: ["one"], tagged: ["odd", "three"]}
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
            commands.delete_rule(row.id, principal=SYSTEM)
        deliver(url)
        assert states([message]) == ["NDLV" if switch is None else "TBDL"], switch


def test_the_order_of_the_table_decides(url: str) -> None:
    first, second = rule("first", {}, "discard"), rule("second", {}, "reject")
    commands.move_rule(second.id, 1, principal=SYSTEM)
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
    monkeypatch.setattr("poisonadmin.rules.domain.content_rules.SLOW_SECONDS", -1.0)
    slow = rule("slow", NEGATIVE, "reject")
    message = order(-1)
    deliver(url)
    assert last(message)[0] == "failed"
    slow.refresh_from_db()
    assert (slow.is_enabled, slow.hits) == (False, 0)
    assert "for one message" in str(slow.fault)
    assert Audit.objects.filter(action="rule.switched_off").count() == 1


def test_what_is_rejected_of_an_ordered_conversation_holds_what_follows(url: str) -> None:
    make_destination(ordered=True)
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
    for _ in range(2):
        deliver(url)
    way = "it would be moved in a circle: orders.eu > orders.us > orders.eu"
    assert last(message) == ("redirected", "NDLV", "dead_letter_loop", way)
    assert Hop.objects.filter(message_id=message).count() == 1
