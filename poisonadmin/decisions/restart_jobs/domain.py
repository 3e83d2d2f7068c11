"""Restart jobs as a person sets them up, and the outcomes of their runs."""

from enum import StrEnum

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.settings import one_of, within
from poisonadmin.decisions.operations.domain.actions import ACTIONS, OperationAction
from poisonadmin.decisions.operations.domain.params import MAX_REASON_CHARS, require_reason
from poisonadmin.search.domain.selection import MAX_MEMBERS, SelectionOrder

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


MAX_NAME_CHARS = 100
MAX_SCHEDULE_CHARS = 100
MAX_RESTARTS = 1_000
ORDERS: dict[str, str] = {
    SelectionOrder.OLDEST: "Oldest first",
    SelectionOrder.NEWEST: "Newest first",
    SelectionOrder.RANDOM: "At random",
    SelectionOrder.OLDEST_FAILURE: "Oldest failure first",
    SelectionOrder.NEWEST_FAILURE: "Newest failure first",
}


@settings.configuration
class RestartJobSettings:
    """A saved filter whose runs are operations. `filter`: parameters of `GET /messages/`.

    `schedule`: cron fields, UTC; None: it runs on request only. `limit`: how many messages a run takes at most, the
    first in `order`. `canary`: each operation tries some first.
    """

    name: str = settings.name_of(MAX_NAME_CHARS)
    action: str = settings.choice(
        "Action", one_of(RESTART_ACTIONS, "."), words={key: ACTIONS[key].verb for key in RESTART_ACTIONS}
    )
    reason: str = settings.text(
        "Reason",
        require_reason,
        most=MAX_REASON_CHARS,
        rows=3,
        hint="Why? Every run keeps it in the history and the audit log.",
    )
    schedule: str | None = settings.text(
        "Schedule: five cron fields, UTC",
        default=None,
        most=MAX_SCHEDULE_CHARS,
        hint="0 4 * * *",
        note="Minute, hour, day, month, day of week. Empty: it runs only when somebody runs it.",
    )
    filter: dict[str, list[str]] = settings.parameters(
        "Filter: one parameter a line",
        default={},
        hint="address=orders.#",
        note="Those of the list of messages: address, reason, group, error, q, key.<name> and so on. Empty: all"
        " messages that wait for a decision.",
    )
    max_restarts: int = settings.number(
        "Most decisions on each message",
        within(1, MAX_RESTARTS),
        default=1,
        note="A later run decides again on a message that failed again, up to this many times.",
    )
    limit: int | None = settings.number(
        "Most messages in a run", within(1, MAX_MEMBERS), default=None, note="Empty: all that the filter finds."
    )
    order: str = settings.choice(
        "Which of them", one_of(ORDERS, "."), default=SelectionOrder.OLDEST.value, words=ORDERS
    )
    rate_per_second: float | None = settings.decimal(
        "Most deliveries a second",
        default=None,
        note="On all workers together. Empty: as fast as the destinations take them.",
    )
    canary: bool = settings.switch(
        "Try 1, then 10, then 100 messages of a run first, and halt when they fail again", default=False
    )
    include_blacklisted: bool = settings.switch(
        "Also decide on messages that crashed their consumer, such as blacklisted ones", default=False
    )
    is_enabled: bool = settings.switch("Switched on: run by the schedule", default=False)
