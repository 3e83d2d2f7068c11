"""The actions that pages offer on messages, and carrying them out."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from poisonadmin.core.domain.access import Principal
from poisonadmin.decisions.commands.decisions import Decided
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import ACTIONS, Action
from poisonadmin.decisions.operations.domain.params import may_carry_out
from poisonadmin.messages.queries.message_rows import MessageRow


def offered(message: MessageRow, principal: Principal) -> list[Action]:
    """Return the actions that the message's state, and the principal's permissions, allow."""
    allowed = [action for action in ACTIONS.values() if action.allows(message)]
    return [action for action in allowed if may_carry_out(action.key, principal)]


def perform(
    action: Action,
    ids: Sequence[int],
    *,
    principal: Principal,
    reason: str,
    delay_seconds: int | None = None,
    **more: Any,
) -> Decided:
    """Carry the action out; `delay_seconds` is for those that take some, `more` as for `decide_on`."""
    if action.delays:
        more["until"] = timezone.now() + timedelta(seconds=delay_seconds or action.delays[0][0])
    return decide_on(ids, action.key, principal=principal, reason=reason, **more)
