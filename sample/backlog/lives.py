"""What has become of the messages of a backlog: their lives so far, step by step, in likely shares."""

from dataclasses import dataclass

from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event, Reason, State, check


@dataclass(frozen=True)
class Step:
    """One change of state. `attempt`: how the try ended that the step is about, where it is about one.

    `minutes`: how long after the step before it comes, at the most. `is_decision`: by a person.
    """

    event: Event
    to: State
    reason: Reason | None = None
    attempt: Outcome | None = None
    minutes: int = 1
    is_decision: bool = False


@dataclass(frozen=True)
class Life:
    """`is_imported`: it died elsewhere and came by a dead-letter address. `fails`: it has a failure, and so a group.

    `waits`: it is due later than now. `crashes`: how often it crashed its consumer.
    """

    share: float
    steps: tuple[Step, ...]
    is_imported: bool = False
    fails: bool = True
    waits: bool = False
    crashes: int = 0

    def __post_init__(self) -> None:
        state: State | None = None
        for step in self.steps:
            check(state, step.event, step.to, step.reason)
            state = step.to

    @property
    def end(self) -> Step:
        """The last step."""
        return self.steps[-1]


_ENQUEUED = Step(Event.ENQUEUED, State.TBDL)
_IMPORTED = Step(Event.IMPORTED, State.NDLV, Reason.IMPORTED, Outcome.IMPORTED)
_CLAIMED = Step(Event.CLAIMED, State.DLNG)
_FAILED = Step(Event.FAILED, State.TBDL, None, Outcome.FAILED, minutes=30)
_CRASHED = Step(Event.CRASHED, State.TBDL, None, Outcome.CRASHED)
_DELIVERED = Step(Event.DELIVERED, State.DLVD, None, Outcome.DELIVERED)
_APPROVED = Step(Event.APPROVED, State.TBDL, minutes=600, is_decision=True)

LIVES = (
    Life(0.40, (_IMPORTED,), is_imported=True),
    Life(
        0.15,
        (
            _ENQUEUED,
            *(_CLAIMED, _FAILED) * 2,
            _CLAIMED,
            Step(Event.FAILED, State.NDLV, Reason.ATTEMPTS_EXHAUSTED, Outcome.FAILED),
        ),
    ),
    Life(0.21, (_ENQUEUED, _CLAIMED, _DELIVERED), fails=False),
    Life(0.08, (_IMPORTED, _APPROVED, _CLAIMED, _DELIVERED), is_imported=True),
    Life(
        0.06,
        (_IMPORTED, Step(Event.MARKED_FAIL, State.FAIL, Reason.FAILED_BY_ADMIN, minutes=600, is_decision=True)),
        is_imported=True,
    ),
    Life(0.05, (_ENQUEUED, _CLAIMED, _FAILED), waits=True),
    Life(0.01, (_ENQUEUED,), fails=False, waits=True),
    Life(0.02, (_ENQUEUED, Step(Event.EXPIRED, State.FAIL, Reason.EXPIRED, minutes=600)), fails=False),
    Life(
        0.01,
        (
            _ENQUEUED,
            *(_CLAIMED, _CRASHED),
            _CLAIMED,
            Step(Event.CRASHED, State.NDLV, Reason.BLACKLISTED, Outcome.CRASHED),
        ),
        fails=False,
        crashes=2,
    ),
    Life(
        0.005,
        (_ENQUEUED, Step(Event.QUARANTINED, State.NDLV, Reason.QUARANTINED, minutes=60, is_decision=True)),
        fails=False,
    ),
    Life(0.005, (Step(Event.ENQUEUED, State.NDLV, Reason.OVERSIZED),), fails=False),
)
