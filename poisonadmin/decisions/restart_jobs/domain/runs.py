"""The actions of restart jobs, and the outcomes of their runs."""

from enum import StrEnum

from poisonadmin.decisions.operations.domain.actions import OperationAction

# Each decides on messages in NDLV and asks for nothing more than a reason.
RESTART_ACTIONS = (OperationAction.APPROVE, OperationAction.RETURN, OperationAction.FAIL)


class RunOutcome(StrEnum):
    """BEGUN: it began an operation. NOTHING: its filter found no message. SKIPPED: an earlier operation had
    messages to begin with.

    REFUSED: the owner may no longer have it run. FAILED: an error.
    """

    BEGUN = "begun"
    NOTHING = "nothing"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"
