"""The states of a message and the one table of what may follow what.

`python -m poisonadmin.messages.domain.states > docs/use/states.md` writes the page with the diagram.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from poisonadmin.core.domain.errors import PoisonAdminError


class State(StrEnum):
    """The state of a message (SAP-6, SAP-10)."""

    TBDL = "TBDL"
    DLNG = "DLNG"
    DLVD = "DLVD"
    NDLV = "NDLV"
    FAIL = "FAIL"


LABELS: dict[State, str] = {
    State.TBDL: "Waiting",
    State.DLNG: "In delivery",
    State.DLVD: "Delivered",
    State.NDLV: "Needs decision",
    State.FAIL: "Given up",
}


class Reason(StrEnum):
    """Why a message is in NDLV or FAIL, or in DLVD without a delivery. What a person writes is the history's note."""

    IMPORTED = "imported"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    DEAD_LETTER_LOOP = "dead_letter_loop"
    LISTED = "listed"
    DISCARDED_BY_POLICY = "discarded_by_policy"
    CONVERSATION_ENDED = "conversation_ended"
    RULE = "rule"
    BLACKLISTED = "blacklisted"
    REJECTED = "rejected"
    OVERSIZED = "oversized"
    QUARANTINED = "quarantined"
    EXPIRED = "expired"
    RETURNED = "returned"
    FAILED_BY_ADMIN = "failed_by_admin"
    HANDED_BACK = "handed_back"
    FROM_ARCHIVE = "from_archive"


class ExclusionKind(StrEnum):
    """An obstacle that keeps messages from being delivered, and goes when one of them is approved."""

    ENTRY = "poison_entry"
    CONVERSATION = "conversation"


class Event(StrEnum):
    """An event in the life of a message; every history row carries one."""

    ENQUEUED = "enqueued"
    IMPORTED = "imported"
    CLAIMED = "claimed"
    DELIVERED = "delivered"
    FAILED = "failed"
    DISCARDED = "discarded"
    ROLLED_BACK = "rolled_back"
    MOVED = "moved"
    RELEASED = "released"
    OUTCOME_LOST = "outcome_lost"
    CRASHED = "crashed"
    NODE_LOST = "node_lost"
    LISTED = "listed"
    DELIVERED_NOW = "deliver_now"
    POSTPONED = "postponed"
    OPERATION_CANCELLED = "operation_cancelled"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    REDIRECTED = "redirected"
    PATCHED = "patched"
    CONVERSATION_ENDED = "conversation_ended"
    EXPIRED = "expired"
    APPROVED = "approved"
    HANDED_BACK = "handed_back"
    MARKED_FAIL = "marked_fail"
    RESTORED = "restored"
    RETURNED = "returned"
    ASSIGNED = "assigned"
    RESTORED_FROM_ARCHIVE = "restored_from_archive"


@dataclass(frozen=True)
class Transition:
    """One row of the table: from `from_state` (None: not here yet), `event` may lead to each of `to_states`.

    `reasons` are those the event may set; empty means that it sets none, or that the former one is kept.
    """

    from_state: State | None
    event: Event
    to_states: tuple[State, ...]
    reasons: tuple[Reason, ...] = ()


TBDL, DLNG, DLVD, NDLV, FAIL = State
# What follows a failure that a policy counts, be it an exception, a crash or a roll-back (R3).
_EXHAUSTED = (
    Reason.ATTEMPTS_EXHAUSTED,
    Reason.DEAD_LETTER_LOOP,
    Reason.LISTED,
    Reason.DISCARDED_BY_POLICY,
    Reason.CONVERSATION_ENDED,
)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(
        None,
        Event.ENQUEUED,
        (TBDL, NDLV, FAIL),
        (Reason.RULE, Reason.REJECTED, Reason.OVERSIZED, Reason.DISCARDED_BY_POLICY),
    ),
    Transition(None, Event.IMPORTED, (NDLV,), (Reason.IMPORTED, Reason.LISTED)),
    Transition(None, Event.RESTORED_FROM_ARCHIVE, (NDLV,), (Reason.FROM_ARCHIVE,)),
    Transition(TBDL, Event.CLAIMED, (DLNG,)),
    Transition(DLNG, Event.DELIVERED, (DLVD,)),
    Transition(
        DLNG,
        Event.FAILED,
        (TBDL, NDLV, FAIL),
        (*_EXHAUSTED, Reason.RULE),
    ),
    Transition(DLNG, Event.REJECTED, (NDLV, FAIL), (Reason.REJECTED, Reason.DISCARDED_BY_POLICY)),
    Transition(DLNG, Event.REDIRECTED, (TBDL, NDLV), (Reason.RULE, Reason.DEAD_LETTER_LOOP)),
    Transition(DLNG, Event.DISCARDED, (FAIL,), (Reason.DISCARDED_BY_POLICY,)),
    Transition(DLNG, Event.ROLLED_BACK, (TBDL, NDLV, FAIL), _EXHAUSTED),
    Transition(DLNG, Event.MOVED, (TBDL, NDLV, FAIL), (Reason.RULE, Reason.DEAD_LETTER_LOOP)),
    Transition(DLNG, Event.CONVERSATION_ENDED, (DLVD, FAIL), (Reason.CONVERSATION_ENDED,)),
    Transition(DLNG, Event.RELEASED, (TBDL,)),
    Transition(DLNG, Event.OUTCOME_LOST, (TBDL,)),
    Transition(DLNG, Event.CRASHED, (TBDL, NDLV, FAIL), (Reason.BLACKLISTED, *_EXHAUSTED)),
    Transition(DLNG, Event.NODE_LOST, (TBDL, NDLV, FAIL), (Reason.BLACKLISTED, *_EXHAUSTED)),
    Transition(TBDL, Event.DELIVERED_NOW, (TBDL,)),
    Transition(TBDL, Event.POSTPONED, (TBDL,)),
    Transition(TBDL, Event.OPERATION_CANCELLED, (NDLV,)),
    Transition(
        TBDL,
        Event.REJECTED,
        (NDLV, FAIL),
        (Reason.REJECTED, Reason.OVERSIZED, Reason.DISCARDED_BY_POLICY),
    ),
    Transition(TBDL, Event.LISTED, (NDLV,), (Reason.LISTED,)),
    Transition(TBDL, Event.QUARANTINED, (NDLV,), (Reason.QUARANTINED,)),
    Transition(TBDL, Event.REDIRECTED, (TBDL,)),
    Transition(TBDL, Event.CONVERSATION_ENDED, (NDLV,), (Reason.CONVERSATION_ENDED,)),
    Transition(TBDL, Event.EXPIRED, (FAIL,), (Reason.EXPIRED,)),
    Transition(NDLV, Event.APPROVED, (TBDL,)),
    Transition(NDLV, Event.REDIRECTED, (TBDL,)),
    Transition(NDLV, Event.PATCHED, (TBDL,)),
    Transition(NDLV, Event.HANDED_BACK, (DLVD,), (Reason.HANDED_BACK,)),
    Transition(NDLV, Event.MARKED_FAIL, (FAIL,), (Reason.FAILED_BY_ADMIN,)),
    Transition(FAIL, Event.RESTORED, (NDLV,)),
    Transition(DLVD, Event.RETURNED, (NDLV,), (Reason.RETURNED,)),
    Transition(DLVD, Event.LISTED, (NDLV,), (Reason.LISTED,)),
    # It leaves the state as it is. Of what is under way, the next event is that of its delivery.
    *(Transition(state, Event.ASSIGNED, (state,)) for state in (TBDL, DLVD, NDLV, FAIL)),
)


_BY_START_AND_EVENT = {(transition.from_state, transition.event): transition for transition in TRANSITIONS}


class TransitionNotAllowed(PoisonAdminError):
    """Raised when an event is not legal in the message's state; `state` is the state it is in."""

    code = "transition_not_allowed"
    status = 409

    def __init__(self, state: State | None, event: Event) -> None:
        legal = " or ".join(str(source) for source in sources(event)) or "a new message"
        super().__init__(f"The message is {state or 'new'}; {event} needs {legal}.")
        self.state = state
        self.event = event


def allowed(from_state: State | None, event: Event) -> tuple[State, ...]:
    """Return the states that `event` may lead to from `from_state`; empty when it is not legal there.

    >>> [str(state) for state in allowed(State.NDLV, Event.APPROVED)]
    ['TBDL']
    >>> allowed(State.FAIL, Event.APPROVED)
    ()
    """
    transition = _BY_START_AND_EVENT.get((from_state, event))
    return transition.to_states if transition else ()


def sources(event: Event) -> tuple[State, ...]:
    """Return the states in which `event` is legal: the `WHERE state IN (…)` of its conditional update.

    >>> [str(state) for state in sources(Event.MARKED_FAIL)]
    ['NDLV']
    """
    return tuple(state for state in State if allowed(state, event))


def reasons(event: Event) -> tuple[Reason, ...]:
    """Return the reasons that `event` may set, in the table's order, without repetition."""
    return tuple(dict.fromkeys(reason for t in TRANSITIONS if t.event is event for reason in t.reasons))


def check(from_state: State | None, event: Event, to_state: State, reason: Reason | None = None) -> None:
    """Do nothing when the table has this transition; raise `TransitionNotAllowed` otherwise.

    A reason that the event does not set there is refused alike.
    """
    transition = _BY_START_AND_EVENT.get((from_state, event))
    if transition is None or to_state not in transition.to_states:
        raise TransitionNotAllowed(from_state, event)
    if reason is not None and reason not in transition.reasons:
        raise TransitionNotAllowed(from_state, event)


def mermaid() -> str:
    """Return the state diagram in Mermaid's language; one arrow a pair of states, its events on it."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for transition in TRANSITIONS:
        for to_state in transition.to_states:
            arrow = (transition.from_state or "[*]", to_state)
            arrows.setdefault(arrow, []).append(transition.event.replace("_", " "))
    names = [f"    {state}: {state} · {label}" for state, label in LABELS.items()]
    lines = [f"    {start} --> {end}: {', '.join(events)}" for (start, end), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", *names, *lines])


def page() -> str:
    """Return docs/use/states.md: the states, the table, the reasons, the diagram."""
    # Here, since it explains what this module declares.
    from poisonadmin.messages.domain.explanations import REASONS, STATES

    return "\n".join(
        [
            "# States of a message",
            "",
            # A comment, which no reader of help sees.
            '[//]: # "python -m poisonadmin.messages.domain.states > docs/use/states.md"',
            "",
            *_table(
                ("state", "name", "means"), ((f"`{one}`", LABELS[State(one)], text) for one, text in STATES.items())
            ),
            "",
            "Every change of state is a conditional update that writes one history row in the same transaction.",
            "An event that the table does not list for a message's state is refused with `409 transition_not_allowed`.",
            "",
            *_table(("from", "event", "to", "reasons"), (_row(transition) for transition in TRANSITIONS)),
            "",
            *_table(("reason", "means"), ((f"`{one}`", text) for one, text in REASONS.items())),
            "",
            "```mermaid",
            mermaid(),
            "```",
            "",
        ]
    )


def _row(transition: Transition) -> tuple[str, ...]:
    start = f"`{transition.from_state}`" if transition.from_state else "(new)"
    ends = " ".join(f"`{state}`" for state in transition.to_states)
    return start, f"`{transition.event}`", ends, " ".join(f"`{reason}`" for reason in transition.reasons)


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heading, ("---",) * len(heading), *rows)]


if __name__ == "__main__":
    sys.stdout.write(page())


class Confirming(StrEnum):
    """The confirmation of a delivered message by the consumer behind its broker; `unanswered`: it is overdue."""

    AWAITED = "awaited"
    UNANSWERED = "unanswered"
    CONFIRMED = "confirmed"
