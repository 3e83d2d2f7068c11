"""Why a message waits as long as it does, or why it does not; the rules after failures that have a say in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.detail_rows import AttemptRow, HistoryRow, MessageDetail
from poisonadmin.policies.domain import hot_loops
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import RetryDecision, counted_events
from poisonadmin.policies.domain.retry_limits import policy_wait
from poisonadmin.policies.domain.retry_schedule import explain
from poisonadmin.policies.domain.retry_series import Override, paced_formula
from poisonadmin.rules.domain.failure_rules import FailureRule, first_match, overridden

# A wait that was written down at the settle and the formula's differ by less than this when they are the same.
_SAME = timedelta(milliseconds=2)
_WHY = {
    Event.ENQUEUED: "taken in, so due at once",
    Event.RELEASED: "put back before it was begun, so due at once",
    Event.OUTCOME_LOST: "put back because its result was lost, so due at once",
    Event.MOVED: "moved here, so due at once",
    Event.REDIRECTED: "redirected here{by}, so due at once",
    Event.APPROVED: "approved{by}, so due at once; its failures are counted from zero",
    Event.PATCHED: "changed{by}, so due at once; its failures are counted from zero",
    Event.DELIVERED_NOW: "made due{by}",
    Event.POSTPONED: "postponed{by}",
}
_UNCOUNTED = {
    Event.CRASHED: "after a crash, which leaves failure_count alone",
    Event.NODE_LOST: "after its node was lost, which leaves failure_count alone",
}
_ENDLESS = {Event.CRASHED: "crashes", Event.NODE_LOST: "lost nodes", Event.ROLLED_BACK: "roll-backs"}
_BY_A_PERSON = (Event.DELIVERED_NOW, Event.POSTPONED)


def endless(policy: Policy, message: MessageDetail, last: HistoryRow | None) -> str | None:
    """Return what the message ended with that no limit counts, in the plural; None: nothing."""
    event = Event(last.event) if last else None
    if event not in _ENDLESS or event in counted_events(policy):
        return None
    is_endless = hot_loops.is_endless(policy, event, message.address, is_in_conversation=False)
    return _ENDLESS[event] if is_endless else None


def how_it_waits(message: MessageDetail, policy: Policy, last: HistoryRow, made: Sequence[AttemptRow]) -> str:
    """Return the terms of the wait that the message is in, or why there is none."""
    if last.event not in counted_events(policy) | {Event.ROLLED_BACK}:
        if last.event in _UNCOUNTED:
            is_paced = hot_loops.is_paced(last.note)
            when, why = (f"{hot_loops.WAIT_MS} ms", f": {hot_loops.NOTE}") if is_paced else ("at once", "")
            return f"due {when} {_UNCOUNTED[Event(last.event)]}{why}"
        by = f" by {last.actor}" if last.event in _BY_A_PERSON or last.from_state == State.NDLV else ""
        return _WHY.get(Event(last.event), last.event).format(by=by)
    # Once it is claimed, its state is no longer as old as the wait.
    waits = message.due_at - message.state_at if message.due_at and message.state == State.TBDL else None
    if last.note and retry_rule(last):
        return last.note if waits is None else f"{last.note}, so {round(waits / timedelta(milliseconds=1))} ms"
    is_uncounted = last.event not in counted_events(policy)
    terms = explain(policy, 1 if is_uncounted else message.failure_count, message.id, last.attempt_number)
    prefix = "after a roll-back, as after the first failure: " if is_uncounted else ""
    if waits is None:
        return f"{prefix}{paced_formula(terms.formula(), last.note)}"
    if abs(waits - timedelta(milliseconds=terms.delay)) <= _SAME:
        return f"{prefix}{terms.formula()}"
    waits_ms = round(waits / timedelta(milliseconds=1))
    return f"{prefix}{terms.formula()}; {_why_other(waits_ms, policy, last, made)}"


def _why_other(waits_ms: int, policy: Policy, last: HistoryRow, made: Sequence[AttemptRow]) -> str:
    """Return why the wait is not the formula's."""
    attempt = next((one for one in made if one.attempt_number == last.attempt_number), None)
    if attempt is not None and attempt.retry_after_ms is not None and waits_ms <= attempt.retry_after_ms:
        return f"the destination asked for {attempt.retry_after_ms} ms, so {waits_ms} ms"
    if hot_loops.is_paced(last.note):
        return hot_loops.NOTE
    if waits_ms == policy.blocked_retry_timeout:
        return f"blocked_retry_timeout {policy.blocked_retry_timeout}, so {waits_ms} ms"
    return f"by what was in force then, {waits_ms} ms"


@dataclass(frozen=True)
class _Again:
    """A failure to come that is like the last one."""

    address: str
    destination: str | None
    error_class: str | None
    cause_class: str | None
    error_message: str | None
    status_code: int | None
    attempt_number: int
    failures: int
    tags: Sequence[str]


def retry_rule(row: HistoryRow) -> str | None:
    """Return the note of the rule that had a failed message wait, None where the policy decided.

    Nothing but a rule and the pace of R11 writes a note beside a failure that waits again.
    """
    if row.event != Event.FAILED or row.to_state != State.TBDL or row.note is None:
        return None
    return row.note.removesuffix(hot_loops.NOTE).removesuffix("; ") or None


def covering(rules: Sequence[FailureRule], address: str) -> list[FailureRule]:
    """Return the rules whose address column matches this address."""
    return [one for one in rules if one.rule.covers(address)]


def rules_sentence(rules: Sequence[FailureRule], address: str) -> list[str]:
    """Return a sentence on the rules that cover an address, or none."""
    match len(rules):
        case 0:
            return []
        case 1:
            return [f"1 rule on failures covers {address}; where it matches, it decides instead of the policy"]
        case many:
            return [f"{many} rules on failures cover {address}; the first that matches decides instead of the policy"]


def as_the_last(
    rules: Sequence[FailureRule], policy: Policy, message: MessageDetail, made: Sequence[AttemptRow]
) -> Override | None:
    """Return what the rules decide if each failure to come is like the last; None where nothing has failed yet."""
    last = next((one for one in made if one.outcome == Outcome.FAILED), None)
    if last is None or not rules:
        return None

    def override(attempt: int, failure: int, by_policy: RetryDecision) -> RetryDecision:
        again = _Again(
            address=message.address,
            destination=last.destination,
            error_class=last.error_class,
            cause_class=last.cause_class,
            error_message=last.error_message,
            status_code=last.status_code,
            attempt_number=attempt,
            failures=failure,
            tags=message.tags,
        )
        found = first_match(rules, again)
        if found is None:
            return by_policy
        wait = policy_wait(policy, by_policy, message_id=message.id, attempt_number=attempt)
        return overridden(by_policy, found, delay_ms=wait)

    return override
