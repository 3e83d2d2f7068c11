"""The words of the pages, the field's and never the code's (no claim, lease or settle), and the colours of states."""

from dataclasses import dataclass
from typing import Any, Protocol

from poisonadmin.messages.domain.outcomes import MemberOutcome, Outcome
from poisonadmin.messages.domain.states import LABELS, Confirming, Event, Reason
from poisonadmin.store.models.claim import NodeEnd

SIGN_OFF_NEEDED = "Nothing is done yet: another person has to sign off."

STATE_LABELS: dict[str, str] = {str(state): label for state, label in LABELS.items()}
STATES = {state: f"{label} ({state})" for state, label in STATE_LABELS.items()}

REASONS: dict[str, str] = {
    Reason.IMPORTED: "Handed in as a dead letter",
    Reason.ATTEMPTS_EXHAUSTED: "All attempts failed",
    Reason.DEAD_LETTER_LOOP: "Moved in a circle",
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
    Event.NODE_LOST: "The worker was lost while it was being delivered",
    Event.LISTED: "Added to the poison list",
    Event.DELIVERED_NOW: "Made due now",
    Event.REJECTED: "Content refused",
    Event.MARKED_FAIL: "Marked FAIL",
}

OUTCOMES: dict[str, str] = {
    Outcome.DELIVERED: "delivered",
    Outcome.FAILED: "failed",
    Outcome.CRASHED: "crashed",
    Outcome.NODE_LOST: "worker lost",
    Outcome.SUSPECTED: "under way at a crash",
    Outcome.DISCARDED: "discarded",
    Outcome.MOVED: "moved",
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.CONVERSATION_ENDED: "conversation ended",
    Outcome.RULED: "decided by a rule",
    Outcome.IMPORTED: "failed elsewhere",
    Outcome.RETURNED: "came back",
}

MEMBER_OUTCOMES: dict[str, str] = {
    MemberOutcome.DELIVERED: "delivered",
    MemberOutcome.CONFIRMED: "delivered, and confirmed by the consumer",
    MemberOutcome.CHANGED: "changed",
    MemberOutcome.FAILED_SAME: "failed again with the same failure",
    MemberOutcome.FAILED_NEW: "failed with another failure",
    MemberOutcome.BLACKLISTED: "crashed the consumer and are blacklisted",
    MemberOutcome.SKIPPED: "left alone",
    MemberOutcome.CANCELLED: "cancelled before delivery",
    MemberOutcome.WAITING: "failed, and wait for the next attempt",
    MemberOutcome.UNANSWERED: "not answered yet",
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
    "not_found": "not found in your scope, or archived",
    "no_destination": "its address has no destination; give it one first",
    "oversized": "its payload is larger than its address allows; raise max_payload_bytes in the policy first",
    "payload_removed": "its payload was removed, as its policy says, so there is nothing left to deliver",
    "listed": "it is on the poison list of the address that it would go to",
    "conversation_ended": "its conversation has ended on the address that it would go to",
    "held_by_predecessor": "a message before it in its ordered conversation waits for a decision",
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
    "newer_delivered": "a newer message with the same business key was delivered where it would go",
    "may_have_been_processed": "it may have been processed already",
    "taken": "another operation has it",
    "crashed": "it has crashed its consumer, and the restart job leaves such messages alone",
}


EVIDENCE: dict[str, str] = {
    "HttpTimeout": "was sent, and not answered in time",
    "HttpConnectionReset": "was sent, and the connection was lost before an answer",
    "ConsumerConnectionLost": "was sent, and the connection was lost before an answer",
    "ConfirmLost": "was sent, and the broker's confirm was lost",
    "node_lost": "had begun on a worker that was lost",
    "outcome_lost": "had begun, and its result was lost",
    "confirmed": "was confirmed by its consumer",
}


def evidence_words(why: str) -> str:
    """Return why a message may have been processed in words, behind `Attempt 3`."""
    return EVIDENCE.get(why, "had begun on a worker that was lost")


def state_words(state: str) -> str:
    """Return the state as pages show it.

    >>> state_words("NDLV")
    'Needs decision (NDLV)'
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


def member_words(outcome: str) -> str:
    """Return a word of the ledger as pages show it."""
    return MEMBER_OUTCOMES.get(outcome, outcome)


def count_words(name: str) -> str:
    """Return the name of a job's count or parameter in words."""
    return COUNTS.get(name, name.replace("_", " "))


# A badge of a state that is in no list is coloured as a warning.
_TONES = {
    "good": {"succeeded", "completed", "done", "clean", "on", "active", "taken", "begun", "sent"},
    "bad": {"failed", "refused", "lost", "silent", "stopped", "unreachable", "broken", "faulty", "retrying"},
    "busy": {"running", "cancelling", "alive", "due"},
    "note": {"queued", "fenced", "seen", "staged"},
    "": {"nothing", "inactive", "held", "dropped"},
}
_TONE_OF = {state: tone for tone, states in _TONES.items() for state in states}
_BADGE_WORDS = {
    "clean": "ended normally",
    "fenced": "came too late",
    "on": "On",
    "off": "Off",
    "paused": "Paused",
    "stopped": "Stopped",
    "unreachable": "Unreachable",
    "broken": "unreadable",
    "faulty": "switched itself off",
    "active": "on",
    "inactive": "off",
    "due": "to be sent",
    "dropped": "not sent",
}


def badge(state: str, words: str = "") -> dict[str, str]:
    """Return what a badge shows of a state: its colour, and these words or those that it has.

    >>> badge("PAUSED"), badge("succeeded")
    ({'tone': 'warn', 'words': 'Paused'}, {'tone': 'good', 'words': 'succeeded'})
    """
    code = str(state).lower()
    return {"tone": _TONE_OF.get(code, "warn"), "words": words or _BADGE_WORDS.get(code, code.replace("_", " "))}


def process_state(process: Any, ended: str = "silent") -> str:
    """Return the state of a node or consumer: alive, or how it ended; `ended` where nobody has said how."""
    return "alive" if process.is_alive else str(process.end or ended)


def switch_state(row: Any) -> str:
    """Return whether a source or destination is on, off, or on and out of reach."""
    if not row.is_enabled:
        return "off"
    return "unreachable" if getattr(row, "is_in_trouble", False) else "on"


def rule_state(rule: Any) -> str:
    """Return whether a rule decides: `ended` where its time is over, `faulty` where it was switched off for a fault."""
    if rule.fault:
        return "faulty"
    return "active" if rule.is_in_force else "ended" if rule.is_enabled else "inactive"


class CrashedAttempt(Protocol):
    """An attempt that ended with a crash."""

    @property
    def outcome(self) -> str: ...
    @property
    def error_class(self) -> str | None: ...
    @property
    def exit_status(self) -> int | None: ...
    @property
    def signal(self) -> str | None: ...


@dataclass(frozen=True)
class CrashText:
    """`tag` is short, `sentence` says what happened."""

    tag: str
    sentence: str


# Where it was we who ended the sandbox, its limit says more than the signal that was sent.
_LIMITS = {
    "HandlerOutOfMemory": CrashText("memory limit", "Its sandbox ran out of memory"),
    "HandlerCpuLimit": CrashText("CPU limit", "Its sandbox reached its limit of CPU time"),
    "HandlerTimeLimit": CrashText("time limit", "Its sandbox reached its limit of time and was stopped"),
    "ConsumerConnectionLost": CrashText(
        "connection lost", "The connection to its consumer was lost before there was an answer"
    ),
}
_BY_ITSELF = CrashText("ended itself", "Its handler ended the sandbox")
_UNKNOWN = CrashText("died", "Its sandbox died")


def describe_crash(crash: CrashedAttempt) -> CrashText:
    """Return the texts that describe a crash."""
    if crash.outcome == Outcome.NODE_LOST:
        return CrashText("worker lost", "The worker was lost while it was being delivered")
    if crash.outcome == Outcome.SUSPECTED:
        return CrashText("under way", "It was being delivered when another message crashed the sandbox")
    if crash.error_class in _LIMITS:
        return _LIMITS[crash.error_class]
    if crash.signal:
        return CrashText(crash.signal, f"Its sandbox was killed by {crash.signal}")
    if crash.exit_status is not None:
        return CrashText(f"exit code {crash.exit_status}", f"Its sandbox exited with code {crash.exit_status}")
    return _BY_ITSELF if crash.error_class == "HandlerExited" else _UNKNOWN
