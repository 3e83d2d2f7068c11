"""The words of the pages: the field's words, never the code's (no claim, lease or settle)."""

from poisonadmin.messages.domain.outcome import Outcome
from poisonadmin.messages.domain.states import LABELS, Confirming, Event, Reason, State
from poisonadmin.store.models.claim import NodeEnd

SIGN_OFF_NEEDED = "Nothing is done yet: another person has to sign off."

STATES: dict[str, str] = {str(state): f"{label} ({state})" for state, label in LABELS.items()}

STATE_HINTS: dict[str, str] = {
    State.TBDL: "Waiting for its next delivery",
    State.DLNG: "With a node right now",
    State.DLVD: "Accepted by its destination",
    State.NDLV: "Stopped; an administrator decides",
    State.FAIL: "Given up; kept for the record",
}

REASONS: dict[str, str] = {
    Reason.IMPORTED: "Handed in as a dead letter",
    Reason.ATTEMPTS_EXHAUSTED: "All attempts failed",
    Reason.LISTED: "On the poison list",
    Reason.DISCARDED_BY_POLICY: "Discarded by the policy",
    Reason.CONVERSATION_ENDED: "Conversation ended with an error",
    Reason.RULE: "Stopped by a rule",
    Reason.BLACKLISTED: "Crashed its consumer",
    Reason.REJECTED: "Content refused",
    Reason.OVERSIZED: "Too large",
    Reason.QUARANTINED: "Quarantined",
    Reason.EXPIRED: "Expired before delivery",
    Reason.RETURNED: "Came back from the broker",
    Reason.FAILED_BY_ADMIN: "Failed by an administrator",
    Reason.HANDED_BACK: "Handed back to its consumers",
    Reason.FROM_ARCHIVE: "Restored from the archive",
}

# An event is called by its name, unless there is more to say.
EVENTS: dict[str, str] = {str(event): event.replace("_", " ").capitalize() for event in Event} | {
    Event.ENQUEUED: "Taken in",
    Event.IMPORTED: "Handed in as a dead letter",
    Event.CLAIMED: "Taken for delivery",
    Event.FAILED: "Delivery failed",
    Event.DISCARDED: "Discarded by its handler",
    Event.ROLLED_BACK: "Rolled back by its handler",
    Event.RELEASED: "Returned to the queue, not begun",
    Event.OUTCOME_LOST: "Returned to the queue, result lost",
    Event.CRASHED: "Crashed its consumer",
    Event.NODE_LOST: "The node was lost while it was being delivered",
    Event.LISTED: "Added to the poison list",
    Event.DELIVERED_NOW: "Made due now",
    Event.REJECTED: "Content refused",
    Event.MARKED_FAIL: "Marked FAIL",
}

OUTCOMES: dict[str, str] = {
    Outcome.DELIVERED: "delivered",
    Outcome.FAILED: "failed",
    Outcome.CRASHED: "crashed",
    Outcome.NODE_LOST: "node lost",
    Outcome.SUSPECTED: "under way at a crash",
    Outcome.DISCARDED: "discarded",
    Outcome.MOVED: "moved",
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.CONVERSATION_ENDED: "conversation ended",
    Outcome.RULED: "decided by a rule",
    Outcome.IMPORTED: "failed elsewhere",
    Outcome.RETURNED: "came back",
}

_NO_FAILURES = {Outcome.IMPORTED, Outcome.MOVED, Outcome.ROLLED_BACK, Outcome.RULED}

CONFIRMATIONS: dict[str, str] = {
    Confirming.AWAITED: "awaited",
    Confirming.UNANSWERED: "overdue",
    Confirming.CONFIRMED: "given",
}

NODE_ENDS: dict[str, str] = {
    NodeEnd.CLEAN: "ended normally",
    NodeEnd.LOST: "lost",
    NodeEnd.FENCED: "came too late, delivered nothing",
}

COUNTS: dict[str, str] = {
    "claimed": "taken",
    "claim": "batch",
    "not_begun": "not begun",
    "outcome_lost": "results lost",
}

REFUSALS: dict[str, str] = {
    "not_found": "not found in your scope",
    "no_destination": "its address has no destination; give it one first",
    "oversized": "its payload is larger than its address allows; raise max_payload_bytes in the policy first",
    "payload_removed": "its payload was removed, as its policy says, so there is nothing left to deliver",
    "listed": "it is on the poison list of the address that it would go to",
    "conversation_ended": "its conversation has ended on the address that it would go to",
    "not_json": "its payload is not JSON",
    "patch_failed": "the patch does not apply to its payload",
    "too_large_to_patch": "its payload, or the result, is too large to be patched",
    "unchanged": "the change leaves it as it is",
    "headers_too_large": "its headers would be too large",
    "not_listed": "it is not on the poison list; approve it instead",
    "no_owner": "the account is gone",
    "too_many_tags": "it would have too many tags",
    "not_moved": "it was never moved, so there is nowhere to return it to",
    "precondition_failed": "it changed since this page was made",
    "transition_not_allowed": "its state does not allow this",
    "taken": "another operation has it",
    "crashed": "it has crashed its consumer, and the restart job leaves such messages alone",
}


def state_words(state: str) -> str:
    """Return the state as pages show it.

    >>> state_words("NDLV")
    'Not delivered (NDLV)'
    """
    return STATES.get(state, state)


def reason_words(reason: str | None) -> str:
    """Return a reason code in words; the code itself when it has none, nothing for None."""
    return REASONS.get(reason, reason) if reason else ""


def event_words(event: str) -> str:
    """Return an event of the history in words."""
    return EVENTS.get(event, event)


def outcome_words(outcome: str) -> str:
    """Return what an attempt came to in words."""
    return OUTCOMES.get(outcome, outcome)


def outcome_tone(outcome: str) -> str:
    """Return how the tag of an outcome is coloured: good, warn or bad."""
    return "good" if outcome == Outcome.DELIVERED else "warn" if outcome in _NO_FAILURES else "bad"


def node_end_words(end: str | None) -> str:
    """Return how a node ended in words; nothing while it runs."""
    return NODE_ENDS.get(end, end) if end else ""


def refusal_words(why: str) -> str:
    """Return why a decision was refused for one message; `why` is a code or the state that it was in."""
    return f"it is {STATES[why]}" if why in STATES else REFUSALS.get(why, why)


def skip_words(code: str) -> str:
    """Return why an operation left a member alone in words: a refusal, or what happened to the member meanwhile."""
    if code in STATES or code in REFUSALS:
        return refusal_words(code)
    return reason_words(code) if code in REASONS else event_words(code)


def count_words(name: str) -> str:
    """Return the name of a job's count or parameter in words."""
    return COUNTS.get(name, name.replace("_", " "))
