"""The actions that people carry out on messages, on one or on a selection, each declared once with its words."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from poisonadmin.messages.domain.states import Event, Reason, State, allowed, sources


class OperationAction(StrEnum):
    APPROVE = "approve"
    FAIL = "fail"
    RETURN = "return"
    DELIVER_NOW = "deliver_now"
    POSTPONE = "postpone"
    QUARANTINE = "quarantine"
    REDIRECT = "redirect"
    PATCH = "patch"
    RELEASE = "release"
    RESTORE = "restore"
    ASSIGN = "assign"


@dataclass(frozen=True)
class Action:
    """`start`: the state in which a message must be; None: any in which the event is legal.

    `fits`: what else a message must be, so that it is offered.

    `params`: what it is told besides which messages (decisions/operations/domain/params.py). `page`: the route of a
    page that carries it out on one message, where that is no dialog.
    `label` is on the button, `verb` on the dialog's, `done` in the note after; `means` says what will happen.
    """

    key: OperationAction
    start: State | None
    event: Event
    label: str
    verb: str
    done: str
    means: str
    icon: str
    button: str = ""
    on_lists: bool = False
    delays: tuple[tuple[int, str], ...] = ()
    params: tuple[str, ...] = ()
    page: str = ""
    fits: Callable[[Any], bool] = field(default=lambda _: True)

    def allows(self, message: Any) -> bool:
        """Return whether a row of a list of messages may be so changed; the command has the last word."""
        return message.state in self.starts and self.fits(message)

    @property
    def starts(self) -> tuple[State, ...]:
        """Return the states in which a message may be."""
        return sources(self.event) if self.start is None else (self.start,)


_DELAYS = ((600, "10 minutes"), (3600, "1 hour"), (4 * 3600, "4 hours"), (86_400, "1 day"), (7 * 86_400, "7 days"))

ACTIONS: dict[str, Action] = {
    action.key: action
    for action in (
        Action(
            OperationAction.APPROVE,
            State.NDLV,
            Event.APPROVED,
            "Approve…",
            "Approve",
            "approved",
            "Will be redelivered now, with all attempts available again.",
            "check",
            "btn-primary",
            on_lists=True,
        ),
        Action(
            OperationAction.FAIL,
            State.NDLV,
            Event.MARKED_FAIL,
            "Mark FAIL…",
            "Mark FAIL",
            "marked FAIL",
            "Will not be delivered again. A message marked FAIL stays on record and can be restored.",
            "ban",
            "btn-danger",
            on_lists=True,
        ),
        Action(
            OperationAction.RETURN,
            State.NDLV,
            Event.APPROVED,
            "Return…",
            "Return to the original address",
            "returned to the original address",
            "Will be redelivered now at the address that it was moved from.",
            "arrow-back-up",
            fits=lambda message: message.original_address not in (None, message.address),
        ),
        Action(
            OperationAction.REDIRECT,
            State.NDLV,
            Event.REDIRECTED,
            "Redirect…",
            "Redirect",
            "redirected",
            "Will be delivered now at the address that you choose, with all attempts available there.",
            "arrow-right",
            params=("address",),
        ),
        Action(
            OperationAction.PATCH,
            State.NDLV,
            Event.PATCHED,
            "Edit and redeliver…",
            "Patch and redeliver",
            "patched",
            "Will be redelivered now with the change, with all attempts available again. The former content is kept.",
            "adjustments-horizontal",
            params=("json_patch", "headers", "payload"),
            page="messages-edit",
        ),
        Action(
            OperationAction.RELEASE,
            State.NDLV,
            Event.APPROVED,
            "Release…",
            "Release from the poison list",
            "released from the poison list",
            "Will be taken off the poison list for every consumer, and redelivered now, or handed back to consumers "
            "that reported it.",
            "playlist-x",
            fits=lambda message: message.reason == Reason.LISTED,
        ),
        Action(
            OperationAction.DELIVER_NOW,
            State.TBDL,
            Event.DELIVERED_NOW,
            "Deliver now…",
            "Deliver now",
            "made due now",
            "Will be delivered now. Its failures still count.",
            "player-play",
        ),
        Action(
            OperationAction.POSTPONE,
            State.TBDL,
            Event.POSTPONED,
            "Postpone…",
            "Postpone",
            "postponed",
            "Will be delivered at the chosen time.",
            "clock",
            delays=_DELAYS,
        ),
        Action(
            OperationAction.QUARANTINE,
            State.TBDL,
            Event.QUARANTINED,
            "Quarantine…",
            "Quarantine",
            "quarantined",
            "Will not be delivered until somebody approves it.",
            "shield",
        ),
        Action(
            OperationAction.RESTORE,
            State.FAIL,
            Event.RESTORED,
            "Restore…",
            "Restore",
            "restored",
            "Will wait for a decision again.",
            "refresh",
            on_lists=True,
        ),
        Action(
            OperationAction.ASSIGN,
            None,
            Event.ASSIGNED,
            "Assign…",
            "Assign",
            "assigned",
            "Will get the owner, tags and note that you choose. Nothing is delivered.",
            "user",
            on_lists=True,
            params=("owner", "tags", "note"),
        ),
    )
}


def actions_on_lists(states: Collection[str]) -> list[Action]:
    """Return the actions that a list of messages in these states offers; in none: of any state.

    >>> [str(action.key) for action in actions_on_lists(["FAIL"])]
    ['restore', 'assign']
    """
    return [one for one in ACTIONS.values() if one.on_lists and (not states or {*one.starts} & {*states})]


# The events of decisions that people and their rules take; who cares for a message is no decision on it.
DECISION_EVENTS = tuple(
    sorted({str(action.event) for name, action in ACTIONS.items() if name is not OperationAction.ASSIGN})
)
# Their members are accounted for when they have been delivered, or not; those of the others at once.
DELIVERING = frozenset(
    OperationAction(key)
    for key, action in ACTIONS.items()
    if action.start is State.NDLV and State.TBDL in allowed(State.NDLV, action.event)
)
