"""The steps of a message's schedule: attempts that were made and attempts to come, each wait with its terms."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from poisonadmin.desk.queries.schedule_reasons import retry_rule
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.detail_rows import AttemptRow, HistoryRow
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, counted_events
from poisonadmin.policies.domain.retry_schedule import Explanation
from poisonadmin.policies.domain.retry_series import FailureStep, Override, paced_formula, series

SHOWN_STEPS = 20
RESETS = (Event.APPROVED, Event.DELIVERED, Event.MOVED, Event.REDIRECTED, Event.PATCHED)


@dataclass(frozen=True)
class PastStep:
    """An attempt that was made, and how long it was until the next one began, in milliseconds.

    `failure`: which counted failure it was, None where it was none. `explanation` is the wait after it by the policy in
    force now, `formula` its terms in one line, or the rule that gave the wait. `is_older`: that policy has changed
    since, so that it may have been another one then.
    """

    attempt_number: int
    outcome: str
    failure: int | None
    started_at: datetime | None
    finished_at: datetime
    waited_ms: int | None
    explanation: Explanation | None
    formula: str | None
    is_older: bool


@dataclass(frozen=True)
class NextStep:
    """An attempt to come, the `attempt`-th since its failures were last reset, of `of`; None: for ever.

    `earliest_at` is when it can begin, were each before it to fail at once, and `how` the terms of the wait before. If
    it fails, `then` is the state that follows, `explanation` the policy's wait in TBDL, `formula` its terms in one line
    or the rule that decides.
    """

    attempt_number: int
    attempt: int
    of: int | None
    failure_count: int
    failure: int
    earliest_at: datetime | None
    then: str
    reason: str | None
    move_to: str | None
    stops_address: bool
    delay_ms: int | None
    how: str | None
    explanation: Explanation | None
    formula: str | None

    @property
    def sentence(self) -> str:
        """The attempt and the wait that leads to it, in one line."""
        return due_sentence(self.attempt, self.of, self.failure_count, self.earliest_at, self.how)


@dataclass(frozen=True)
class Start:
    """The start of the steps to come: the next attempt's number, what is counted so far, and when it is due."""

    message_id: int
    address: str
    attempt_number: int
    failure_count: int
    conversation_failures: int | None
    at: datetime | None
    how: str | None
    of: int | None
    is_hot: bool = False
    override: Override | None = None


def due_sentence(
    attempt: int, of: int | None, failure_count: int, at: datetime | None, how: str | None, endless: str | None = None
) -> str:
    """Return which attempt is due when, and why then. `endless`: as for `attempt_words`.

    >>> due_sentence(5, 10, 4, None, "5000 ms x 1.5^3 = 16875, cap 50000")
    'attempt 5 of 10 (failure_count 4): 5000 ms x 1.5^3 = 16875, cap 50000'
    """
    when = f" due at {at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}" if at else ""
    return attempt_words(attempt, of, failure_count, endless) + when + (f": {how}" if how else "")


def attempt_words(attempt: int, of: int | None, failure_count: int, endless: str | None = None) -> str:
    """Return which attempt it is, of how many. `endless`: what it ended with that no limit counts, in the plural.

    >>> attempt_words(106, 10, 105)
    'attempt 106, past the limit of 10 (failure_count 105)'
    >>> attempt_words(1, 10, 0, "crashes")
    'attempt 1, without a limit on crashes (failure_count 0)'
    """
    if of is None:
        limit = ", without a limit"
    elif endless is not None:
        limit = f", without a limit on {endless}"
    else:
        limit = f", past the limit of {of}" if attempt > of else f" of {of}"
    return f"attempt {attempt}{limit} (failure_count {failure_count})"


def failures_counted(history: Sequence[HistoryRow], policy: Policy, *, before: int | None) -> dict[int, int]:
    """Return attempt number -> which failure it was by what the policy counts, from a history, newest first.

    `before`: the failures counted before the history begins; None: nobody knows, so that attempts before its first new
    beginning are left out.
    """
    found: dict[int, int] = {}
    count = before
    counted = counted_events(policy)
    for row in reversed(history):
        if row.event in RESETS:
            count = 0
        elif row.event in counted and count is not None:
            count += 1
            found[row.attempt_number] = count
    return found


def past_steps(
    policy: Policy,
    message_id: int,
    address: str,
    newest_first: Sequence[AttemptRow],
    failures: Mapping[int, int],
    changes: Sequence[HistoryRow],
    changed_at: datetime | None,
) -> list[PastStep]:
    """Return the attempts made, oldest first; `changes` say how each was decided."""
    steps = []
    decided = {row.attempt_number: row for row in changes if row.from_state == State.DLNG}
    following: datetime | None = None
    for attempt in newest_first:
        waited = None if following is None else round((following - attempt.finished_at) / timedelta(milliseconds=1))
        number = attempt.attempt_number
        failure = failures.get(number)
        counts_as = 1 if attempt.outcome == Outcome.ROLLED_BACK and failure is None else failure
        after = None
        if counts_as:
            after = next(series(policy, PlainTry(message_id, number, counts_as - 1, address)))
        if after is not None and after.decision.delay_ms is None:
            after = None  # the last one has no wait
        row = decided.get(number)
        rule = retry_rule(row) if row else None
        formula = paced_formula(rule or (after.formula if after else ""), row.note if row else None)
        steps.append(
            PastStep(
                attempt_number=number,
                outcome=attempt.outcome,
                failure=failure,
                started_at=attempt.started_at,
                finished_at=attempt.finished_at,
                waited_ms=waited,
                explanation=after.terms if after and rule is None else None,
                formula=formula or None,
                is_older=changed_at is not None and changed_at > attempt.finished_at,
            )
        )
        following = attempt.started_at
    return steps[::-1]


def next_steps(policy: Policy, start: Start) -> list[NextStep]:
    """Return the attempts to come if each fails, up to the last or twenty."""
    steps = []
    at, how = start.at, start.how
    coming = series(
        policy,
        PlainTry(start.message_id, start.attempt_number, start.failure_count, start.address),
        conversation_failures=start.conversation_failures,
        is_hot=start.is_hot,
        override=start.override,
    )
    for step in itertools.islice(coming, SHOWN_STEPS):
        steps.append(_step(step, of=start.of, at=at, how=how))
        wait = step.decision.delay_ms
        if wait is None or step.decision.stop_address or step.decision.move_to is not None:
            break
        how = step.formula
        at = None if at is None else at + timedelta(milliseconds=wait)
    return steps


def _step(step: FailureStep, *, of: int | None, at: datetime | None, how: str | None) -> NextStep:
    decision = step.decision
    return NextStep(
        attempt_number=step.attempt_number,
        attempt=step.failure,
        of=of,
        failure_count=step.failure - 1,
        failure=step.failure,
        earliest_at=at,
        then=str(decision.state),
        reason=str(decision.reason) if decision.reason else None,
        move_to=decision.move_to,
        stops_address=decision.stop_address,
        delay_ms=decision.delay_ms,
        how=how,
        explanation=None if decision.delay_ms is None or step.rule_note is not None else step.terms,
        formula=None if decision.delay_ms is None and step.rule_note is None else step.formula,
    )
