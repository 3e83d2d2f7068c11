"""When a message was tried, when it will be, and how each wait comes about."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from poisonadmin.domain.access import Principal
from poisonadmin.domain.policy import Policy
from poisonadmin.domain.redelivery import Explanation, explain
from poisonadmin.domain.states import State
from poisonadmin.domain.verdicts import Verdict, on_failure
from poisonadmin.queries.message_detail import get_message
from poisonadmin.queries.message_log import AttemptRow, attempts
from poisonadmin.queries.policy_book import book

SHOWN_STEPS = 20


@dataclass(frozen=True)
class PastStep:
    """An attempt that was made, and how long it was until the next one began, in milliseconds."""

    attempt_number: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    waited_ms: int | None


@dataclass(frozen=True)
class NextStep:
    """What would follow if the attempt `attempt_number` failed: `then` is a state, `explanation` the wait in TBDL.

    `earliest_at` is when the attempt itself can begin, were each before it to fail at once.
    """

    attempt_number: int
    failure: int
    earliest_at: datetime | None
    then: str
    reason: str | None
    delay_ms: int | None
    explanation: Explanation | None

    @property
    def formula(self) -> str | None:
        """The wait's terms in one line."""
        return self.explanation.formula() if self.explanation else None


@dataclass(frozen=True)
class Schedule:
    """`next` follows the policy in force now; it is empty for a message that waits for a decision or is final."""

    due_at: datetime | None
    failure_count: int
    past: list[PastStep]
    next: list[NextStep]


def schedule(message_id: int, *, principal: Principal) -> Schedule:
    """Return the explained schedule; raise MessageNotFound."""
    message = get_message(message_id, principal=principal)
    made = attempts(message_id, principal=principal, limit=SHOWN_STEPS).results
    steps: list[NextStep] = []
    if message.state in (State.TBDL, State.DLNG):
        under_way = 1 if message.state == State.TBDL else 0
        steps = _next(
            book().resolve(message.address).policy,
            message_id=message.id,
            address=message.address,
            attempt_number=message.attempt_number + under_way,
            failure_count=message.failure_count,
            at=message.due_at,
        )
    return Schedule(message.due_at, message.failure_count, _past(made), steps)


def _past(newest_first: list[AttemptRow]) -> list[PastStep]:
    steps = []
    following: datetime | None = None
    for attempt in newest_first:
        waited = None if following is None else round((following - attempt.finished_at) / timedelta(milliseconds=1))
        steps.append(PastStep(attempt.attempt_number, attempt.outcome, attempt.started_at, attempt.finished_at, waited))
        following = attempt.started_at
    return steps[::-1]


def _next(
    policy: Policy, *, message_id: int, address: str, attempt_number: int, failure_count: int, at: datetime | None
) -> list[NextStep]:
    steps = []
    for number in range(attempt_number, attempt_number + SHOWN_STEPS):
        verdict = on_failure(
            policy, message_id=message_id, attempt_number=number, failure_count=failure_count, address=address
        )
        failure_count += 1
        steps.append(_step(policy, verdict, message_id=message_id, number=number, failure=failure_count, at=at))
        if verdict.delay_ms is None or verdict.stop_address:
            break
        at = None if at is None else at + timedelta(milliseconds=verdict.delay_ms)
    return steps


def _step(
    policy: Policy, verdict: Verdict, *, message_id: int, number: int, failure: int, at: datetime | None
) -> NextStep:
    waits = verdict.delay_ms is not None
    return NextStep(
        attempt_number=number,
        failure=failure,
        earliest_at=at,
        then=str(verdict.state),
        reason=str(verdict.reason) if verdict.reason else None,
        delay_ms=verdict.delay_ms,
        explanation=explain(policy, failure, message_id, number) if waits else None,
    )
