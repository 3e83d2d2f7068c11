"""The decisions that a person can take, as pages offer them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils import timezone

from poisonadmin.core.domain.access import Principal
from poisonadmin.messages.commands import decisions
from poisonadmin.messages.commands.decisions import Decided
from poisonadmin.messages.domain.states import Event, sources
from poisonadmin.messages.queries.lists import MessageRow


@dataclass(frozen=True)
class Action:
    """`label` is on the button, `verb` on the dialog's, `done` in the note after; `means` says what will happen."""

    key: str
    label: str
    verb: str
    done: str
    means: str
    event: Event
    perform: Callable[..., Decided]
    icon: str
    button: str = ""
    on_lists: bool = False
    delays: tuple[tuple[int, str], ...] = ()
    fits: Callable[[MessageRow], bool] = field(default=lambda _: True)

    def allows(self, message: MessageRow) -> bool:
        """Return whether the message's state allows it; the operation has the last word."""
        return message.state in sources(self.event) and self.fits(message)


_DELAYS = ((600, "10 minutes"), (3600, "1 hour"), (4 * 3600, "4 hours"), (86_400, "1 day"), (7 * 86_400, "7 days"))

ACTIONS: dict[str, Action] = {
    action.key: action
    for action in (
        Action(
            "approve",
            "Approve…",
            "Approve",
            "approved",
            "Will be redelivered now, with all attempts available again.",
            Event.APPROVED,
            decisions.approve,
            "check",
            "btn-primary",
            on_lists=True,
        ),
        Action(
            "fail",
            "Mark FAIL…",
            "Mark FAIL",
            "marked FAIL",
            "Will not be delivered again. A message marked FAIL stays on record and can be restored.",
            Event.MARKED_FAIL,
            decisions.mark_fail,
            "ban",
            "btn-danger",
            on_lists=True,
        ),
        Action(
            "return",
            "Return…",
            "Return to the original address",
            "returned to the original address",
            "Will be redelivered now at the address that it was moved from.",
            Event.APPROVED,
            decisions.return_to_original,
            "undo",
            fits=lambda message: message.original_address not in (None, message.address),
        ),
        Action(
            "deliver_now",
            "Deliver now…",
            "Deliver now",
            "made due now",
            "Will be delivered now. Its failures still count.",
            Event.DELIVERED_NOW,
            decisions.deliver_now,
            "play",
        ),
        Action(
            "postpone",
            "Postpone…",
            "Postpone",
            "postponed",
            "Will be delivered at the chosen time.",
            Event.POSTPONED,
            decisions.postpone,
            "clock",
            delays=_DELAYS,
        ),
        Action(
            "quarantine",
            "Quarantine…",
            "Quarantine",
            "quarantined",
            "Will not be delivered until somebody approves it.",
            Event.QUARANTINED,
            decisions.quarantine,
            "shield",
        ),
        Action(
            "restore",
            "Restore…",
            "Restore",
            "restored",
            "Will wait for a decision again.",
            Event.RESTORED,
            decisions.restore,
            "refresh",
        ),
    )
}


def offered(message: MessageRow) -> list[Action]:
    """Return the actions that the message's state allows."""
    return [action for action in ACTIONS.values() if action.allows(message)]


def perform(
    action: Action,
    ids: Sequence[int],
    *,
    principal: Principal,
    reason: str,
    delay_seconds: int | None = None,
    expected: tuple[str | None, int | None] = (None, None),
) -> Decided:
    """Carry the action out; `delay_seconds` is for those that take one, `expected` the (state, attempt) seen."""
    more: dict[str, Any] = {"expected_state": expected[0], "expected_attempt": expected[1]}
    if action.delays:
        more["until"] = timezone.now() + timedelta(seconds=delay_seconds or action.delays[0][0])
    return action.perform(ids, principal=principal, reason=reason, **more)
