"""The states of an operation, and what may follow what."""

from enum import StrEnum


class OperationState(StrEnum):
    """WAITING_FOR_SIGN_OFF: nothing is done before another person consents. HALTED: its canary stopped it,
    or who asked for it may not decide any more.

    CANCELLING: nothing more begins; what is under way ends, and the rest waits for a decision again. CANCELLED: that
    is so of every member.
    """

    WAITING_FOR_SIGN_OFF = "waiting_for_sign_off"
    RUNNING = "running"
    PAUSED = "paused"
    HALTED = "halted"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


class OperationChange(StrEnum):
    """Changes that a person makes to an operation."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


WAITING, RUNNING, PAUSED, HALTED, CANCELLING, CANCELLED, COMPLETED = OperationState

# Their operations have not ended.
OPEN_STATES = (WAITING, RUNNING, PAUSED, HALTED, CANCELLING)
# The states that a tick carries on with, and what each ends in.
ENDS = {RUNNING: COMPLETED, CANCELLING: CANCELLED}
CHANGES: dict[OperationChange, tuple[tuple[OperationState, ...], OperationState]] = {
    OperationChange.PAUSE: ((RUNNING,), PAUSED),
    OperationChange.RESUME: ((PAUSED, HALTED), RUNNING),
    OperationChange.CANCEL: ((WAITING, RUNNING, PAUSED, HALTED), CANCELLING),
}


def changes_of(state: OperationState) -> tuple[OperationChange, ...]:
    """Return what a person may do to an operation in this state.

    >>> [str(change) for change in changes_of(OperationState.PAUSED)]
    ['resume', 'cancel']
    """
    return tuple(change for change, (starts, _) in CHANGES.items() if state in starts)
