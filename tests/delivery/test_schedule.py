"""Why a message is due when it is, past and future, and what holds it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from poisonadmin.addresses.commands import pause
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.desk.queries.schedule import Schedule, schedule
from poisonadmin.policies.domain.hot_loops import NOTE
from poisonadmin.policies.domain.retry_schedule import jitter
from tests.fixtures.decisions import approve, postpone, quarantine
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_destination
from tests.rules.ruled import rule

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}
SAMPLE: dict[str, object] = {
    "redelivery_delay": 5000,
    "redelivery_delay_multiplier": 1.5,
    "max_redelivery_delay": 50_000,
    "max_delivery_attempts": 10,
}


def of(message: int) -> Schedule:
    """Return the schedule of a message."""
    return schedule(message, principal=SYSTEM)


def make_due(message: int) -> None:
    """Let a waiting message's time come."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET due_at = now() WHERE id = %s", [message])
        cursor.execute(
            "UPDATE lane SET next_due = now() WHERE id = (SELECT lane_id FROM message WHERE id = %s)", [message]
        )


def fail(message: int, times: int = 1, outcome: str = "failed", **columns: object) -> None:
    """Deliver a message so often that it fails."""
    for _ in range(times):
        make_due(message)
        taken = claim()
        answer([message], outcome, **columns)
        end_nodes(taken)
        settle()


def test_the_wait_of_a_message_is_said_with_its_terms() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    fail(message, 4)
    found = of(message)
    due = get_message(message, principal=SYSTEM).due_at
    assert due is not None
    at = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert found.sentence == f"attempt 5 of 10 (failure_count 4) due at {at}: 5000 ms x 1.5^3 = 16875, cap 50000"
    assert [(step.failure, step.formula) for step in found.past] == [
        (1, "5000 ms x 1.5^0 = 5000, cap 50000"),
        (2, "5000 ms x 1.5^1 = 7500, cap 50000"),
        (3, "5000 ms x 1.5^2 = 11250, cap 50000"),
        (4, "5000 ms x 1.5^3 = 16875, cap 50000"),
    ]
    assert [step.attempt for step in found.next] == [5, 6, 7, 8, 9, 10]
    assert found.next[0].sentence == found.sentence
    later = due + timedelta(milliseconds=25312)
    assert found.next[1].earliest_at == later
    assert found.next[1].sentence.endswith(": 5000 ms x 1.5^4 = 25312, cap 50000")
    assert (found.next[-1].then, found.next[-1].delay_ms) == ("NDLV", None)


def test_the_jitter_is_that_of_the_failed_attempt() -> None:
    make_destination(**SAMPLE, redelivery_collision_avoidance_factor=0.15)
    # The jitter of one attempt in a thousand is less than a millisecond, and is then not named.
    message = next(one for one in enqueue(5) if jitter(one, 2)[1] > 0.01)
    fail(message, 2)
    found = of(message)
    assert found.sentence is not None
    assert ", jitter " in found.sentence
    assert found.past[-1].formula is not None
    assert found.sentence.endswith(found.past[-1].formula)


def test_the_last_failure_has_no_wait_and_a_moved_message_is_explained_where_it_was_tried() -> None:
    make_destination(**SAMPLE | {"max_delivery_attempts": 2, "dead_letter_address": "orders.dead"})
    [message] = enqueue()
    fail(message, 2)
    found = of(message)
    assert (found.address, found.sentence) == ("orders.eu", None)
    assert [step.formula is None for step in found.past] == [False, True]
    assert found.past[0].formula is not None
    assert found.past[0].formula.startswith("5000 ms x 1.5^0")


@pytest.mark.parametrize(
    ("asked_ms", "said"),
    [(60_000, "; the destination asked for 60000 ms, so 60000 ms"), (10, "5000 ms x 1.5^0 = 5000, cap 50000")],
)
def test_a_wait_that_the_destination_asked_for_says_so(asked_ms: int, said: str) -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    fail(message, retry_after_ms=asked_ms)
    assert (of(message).sentence or "").endswith(said)


def test_a_message_that_stays_when_it_is_exhausted_waits_as_its_policy_says() -> None:
    make_destination(
        max_failed_deliveries=1, exception_destination="none", blocked_retry_timeout=7000, max_delivery_attempts=-1
    )
    [message] = enqueue()
    fail(message)
    found = of(message)
    assert found.of is None
    assert (found.sentence or "").startswith("attempt 2, without a limit (failure_count 1) due at ")
    assert (found.sentence or "").endswith("; blocked_retry_timeout 7000, so 7000 ms")
    assert (found.next[0].formula or "").endswith("at least blocked_retry_timeout 7000")


def test_what_a_person_did_is_said() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    assert "taken in, so due at once" in (of(message).sentence or "")
    due = get_message(message, principal=SYSTEM).due_at
    assert due is not None
    postpone([message], until=due + timedelta(hours=1), **WHY)
    assert (of(message).sentence or "").endswith(": postponed by system")
    quarantine([message], **WHY)
    assert of(message).sentence is None
    assert of(message).next == []
    approve([message], **WHY)
    assert (of(message).sentence or "").endswith(
        "approved by system, so due at once; its failures are counted from zero"
    )


def test_failures_before_an_approval_are_counted_apart() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    fail(message, 2)
    quarantine([message], **WHY)
    approve([message], **WHY)
    fail(message)
    found = of(message)
    assert [step.failure for step in found.past] == [1, 2, 1]
    assert (found.next[0].attempt, found.next[0].attempt_number) == (2, 4)


def test_a_policy_that_changed_since_is_said() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    fail(message)
    for seconds, is_older in ((-1, False), (1, True)):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE policy SET updated_at = now() + %s * interval '1 s'", [seconds])
        assert of(message).past[0].is_older is is_older


def test_breakers_and_conversations_are_counted() -> None:
    make_destination(**SAMPLE, conversation_failure_limit=4, queue_off_after_rollbacks=2)
    first, second = enqueue(2, conversation_id="c-1")
    fail(first, 2)
    fail(second, 1)
    found = of(first)
    assert found.conversation is not None
    assert (found.conversation.failures, found.conversation.limit) == (3, 4)
    assert [one.sentence for one in found.breakers] == [
        "2 more roll-backs stop the address (0 counted, queue_off_after_rollbacks 2)",
        "one more failure ends the conversation (3 counted, conversation_failure_limit 4)",
    ]
    assert [(step.then, step.reason) for step in found.next] == [("FAIL", "conversation_ended")]
    fail(second, 1, "rolled_back")
    assert of(first).breakers[0].left == 1


def test_a_held_message_says_behind_which_it_waits() -> None:
    make_destination(**SAMPLE, ordered=True)
    ids = enqueue(4, conversation_id="c-1")
    claim()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET state = 'TBDL', claim_id = NULL, shard = NULL WHERE id = ANY(%s)", [ids])
    quarantine([ids[0]], **WHY)
    found = of(ids[2]).held
    assert [one.id for one in found.predecessors] == ids[:2]
    assert (found.predecessor_count, found.successor_count) == (2, 1)
    assert found.reasons == [f"held behind message {ids[0]} of its conversation, which is NDLV quarantined"]
    assert (of(ids[0]).held.reasons, of(ids[0]).held.successor_count) == ([], 3)


def test_a_message_on_an_address_that_does_not_deliver_says_why() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    pause("orders.eu", **WHY)
    assert of(message).held.reasons == ["orders.eu is PAUSED, by system"]
    [parked] = enqueue(address="parked")
    assert of(parked).held.reasons == ["parked delivers nowhere"]


SECOND = "at least 1000 since nothing ends the redeliveries"


@pytest.mark.conformance("R11")
@pytest.mark.parametrize("outcome", ["failed", "rolled_back"])
def test_a_second_that_was_waited_is_said_of_the_past(outcome: str) -> None:
    make_destination(redelivery_delay=0, max_redelivery_delay=0, max_delivery_attempts=-1)
    [message] = enqueue()
    fail(message, 12, outcome)
    found = of(message)
    assert [(step.formula or "").endswith(SECOND) for step in found.past] == [False] * 10 + [True] * 2
    assert (found.past[-1].formula or "").startswith("0 ms x ")


@pytest.mark.conformance("R11")
def test_crashes_that_nothing_ends_say_their_second_and_that_they_have_no_limit() -> None:
    make_destination(**SAMPLE, blacklisting_enabled=False)
    [message] = enqueue()
    fail(message, 3, "crashed", error_class="HandlerKilled", fingerprint="c" * 16, title="x")
    first = of(message).sentence or ""
    assert first.startswith("attempt 1, without a limit on crashes (failure_count 0) due at ")
    assert first.endswith(": due at once after a crash, which leaves failure_count alone")
    fail(message, 9, "crashed", error_class="HandlerKilled", fingerprint="c" * 16, title="x")
    found = of(message)
    assert f": due 1000 ms after a crash, which leaves failure_count alone: {NOTE}" in (found.sentence or "")
    assert [step.formula for step in found.past] == [None] * 10 + [SECOND] * 2
    assert [step.of for step in found.next][:1] == [10]


@pytest.mark.conformance("R11")
def test_a_rule_that_decided_is_credited_with_the_wait_past_and_to_come() -> None:
    make_destination(**SAMPLE | {"max_delivery_attempts": 3})
    rule("at once", {"exception_class": "Busy"}, {"do": "retry", "delay_ms": 0}, stage="after")
    [message] = enqueue()
    fail(message, 2, error_class="Busy")
    found = of(message)
    assert (found.sentence or "").startswith("attempt 3 of 3 (failure_count 2) due at ")
    assert (found.sentence or "").endswith(": rule at once: retry, so 0 ms")
    assert [step.formula for step in found.past] == ["rule at once: retry"] * 2
    fail(message, 9, error_class="Busy")
    found = of(message)
    assert (found.sentence or "").startswith("attempt 12, past the limit of 3 (failure_count 11) due at ")
    assert (found.sentence or "").endswith(f": rule at once: retry; {NOTE}, so 1000 ms")
    assert [step.formula for step in found.past] == ["rule at once: retry"] * 10 + [f"rule at once: retry, {SECOND}"]
    assert {(step.then, step.delay_ms, step.formula) for step in found.next} == {
        ("TBDL", 1000, f"rule at once: retry, {SECOND}")
    }
    make_due(message)
    claim()
    assert of(message).sentence == "attempt 12, past the limit of 3 (failure_count 11) is under way"
    assert of(message).next[0].how == f"rule at once: retry; {NOTE}"
    answer([message], "failed", error_class="Other")
    settle()
    assert of(message).sentence is None


def test_a_rule_is_asked_of_each_failure_to_come_as_of_the_last() -> None:
    make_destination(**SAMPLE)
    rule("twice", {"failures": {"max": 3}}, {"do": "retry", "factor": 2}, stage="after")
    rule("then away", {"failures": {"min": 6}}, {"do": "redirect", "address": "orders.slow"}, stage="after")
    [message] = enqueue()
    fail(message, 1)
    steps = of(message).next
    assert [(step.failure, step.delay_ms, step.move_to) for step in steps] == [
        (2, 15_000, None),
        (3, 22_500, None),
        (4, 16_875, None),
        (5, 25_312, None),
        (6, 0, "orders.slow"),
    ]
    assert steps[0].formula == "rule twice: retry"
    assert steps[2].formula == "5000 ms x 1.5^3 = 16875, cap 50000"


def test_a_long_past_keeps_its_failure_numbers_and_says_that_it_is_cut_off() -> None:
    make_destination(**SAMPLE | {"max_delivery_attempts": -1})
    [message] = enqueue()
    fail(message, 2)
    assert not of(message).is_past_cut_off
    add_failures(message, 600)
    found = of(message)
    assert [step.failure for step in found.past] == list(range(583, 603))
    assert found.past[-1].formula == "5000 ms x 1.5^601 = 9223372036854775807, capped at 50000"
    assert found.is_past_cut_off


def add_failures(message: int, times: int) -> None:
    """Write the history and the attempts of so many more failures."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO history (message_id, at, from_state, to_state, event, attempt_number, actor)
            SELECT id, now(), CASE e WHEN 'failed' THEN 'DLNG' ELSE 'TBDL' END,
                   CASE e WHEN 'failed' THEN 'TBDL' ELSE 'DLNG' END, e, attempt_number + n, 'system'
            FROM message, generate_series(1, %(times)s) n, unnest(ARRAY['claimed', 'failed']) WITH ORDINALITY x (e, o)
            WHERE id = %(id)s ORDER BY n, o""",
            {"id": message, "times": times},
        )
        cursor.execute(
            """INSERT INTO attempt (message_id, attempt_number, outcome, finished_at)
            SELECT id, attempt_number + n, 'failed', now() FROM message, generate_series(1, %(times)s) n
            WHERE id = %(id)s""",
            {"id": message, "times": times},
        )
        cursor.execute(
            """UPDATE message SET attempt_number = attempt_number + %(times)s, failure_count = failure_count + %(times)s
            WHERE id = %(id)s""",
            {"id": message, "times": times},
        )


def test_only_rules_that_cover_the_address_are_counted() -> None:
    make_destination(**SAMPLE)
    [message] = enqueue()
    rule("elsewhere", {"address": "returns.#"}, "park", stage="after")
    assert of(message).notes == []
    rule("here", {"address": "orders.#"}, "park", stage="after")
    assert of(message).notes == [
        "1 rule on failures covers orders.eu; where it matches, it decides instead of the policy"
    ]
    rule("anywhere", {}, "park", stage="after")
    assert of(message).notes == [
        "2 rules on failures cover orders.eu; the first that matches decides instead of the policy"
    ]
