"""The explanations of states, reasons, outcomes of attempts and words of the ledger: one table for pages and docs."""

from poisonadmin.messages.domain.outcomes import MemberOutcome, Outcome
from poisonadmin.messages.domain.states import Reason, State

STATES: dict[str, str] = {
    State.TBDL: "It is delivered when it is due; nobody has to do anything.",
    State.DLNG: "A worker delivers it right now.",
    State.DLVD: "Its destination has accepted it.",
    State.NDLV: "It is stopped. Nothing happens until somebody decides.",
    State.FAIL: "It is given up and kept for the record; it can be restored.",
}
REASONS: dict[str, str] = {
    Reason.IMPORTED: "Another system had stopped trying to deliver it, and handed it in.",
    Reason.ATTEMPTS_EXHAUSTED: "It failed as often as its policy allows.",
    Reason.DEAD_LETTER_LOOP: "Dead-letter addresses would have moved it in a circle.",
    Reason.LISTED: "Its bookmark is on the poison list, so its consumers skip it.",
    Reason.DISCARDED_BY_POLICY: "Its policy gives up what fails, without asking anybody.",
    Reason.CONVERSATION_ENDED: "Its conversation was ended with an error; none of its messages is delivered any more.",
    Reason.RULE: "A rule matched it, and stopped it.",
    Reason.BLACKLISTED: "It crashed its consumer as often as its policy allows.",
    Reason.REJECTED: "A check of its content refused it.",
    Reason.OVERSIZED: "Its payload is larger than its address allows.",
    Reason.QUARANTINED: "Somebody set it aside.",
    Reason.EXPIRED: "Its time was over before it was delivered.",
    Reason.RETURNED: "The broker had taken it, and gave it back.",
    Reason.FAILED_BY_ADMIN: "Somebody marked it FAIL.",
    Reason.HANDED_BACK: "Somebody released it from the poison list; its consumers handle it again.",
    Reason.FROM_ARCHIVE: "Somebody took it back from the archive.",
}
OUTCOMES: dict[str, str] = {
    Outcome.DELIVERED: "The destination accepted it.",
    Outcome.FAILED: "The destination refused it, or did not answer.",
    Outcome.CRASHED: "The consumer crashed while it handled it.",
    Outcome.NODE_LOST: "The worker that had begun it was lost.",
    Outcome.SUSPECTED: "It was being delivered when another message crashed the consumer.",
    Outcome.DISCARDED: "Its handler discarded it.",
    Outcome.MOVED: "Its handler moved it to another address.",
    Outcome.ROLLED_BACK: "Its handler asked for another attempt.",
    Outcome.CONVERSATION_ENDED: "Its handler ended its conversation.",
    Outcome.RULED: "A rule decided before anything was delivered.",
    Outcome.IMPORTED: "It failed in another system, before it was handed in.",
    Outcome.RETURNED: "The broker had taken it, and gave it back.",
}
LEDGER: dict[str, str] = {
    MemberOutcome.DELIVERED: "The destination accepted them.",
    MemberOutcome.CONFIRMED: "The consumer behind the broker reported that it processed them.",
    MemberOutcome.CHANGED: "The decision is carried out; it delivers nothing.",
    MemberOutcome.FAILED_SAME: "They failed as before, and wait for a decision again.",
    MemberOutcome.FAILED_NEW: "They failed with a failure of another group than before.",
    MemberOutcome.BLACKLISTED: "They crashed their consumer, and are not delivered again.",
    MemberOutcome.SKIPPED: "Nothing was done with them; the reasons stand below.",
    MemberOutcome.CANCELLED: "The operation ended before them; they wait for a decision as before.",
    MemberOutcome.WAITING: "They failed, and their policy delivers them again.",
    MemberOutcome.UNANSWERED: "They have not begun, or their answer is not known yet.",
}
EXPLANATIONS = {"state": STATES, "reason": REASONS, "outcome": OUTCOMES, "ledger": LEDGER}


def explanation(kind: str, code: str) -> str:
    """Return what a word means; empty for one that has no explanation.

    >>> explanation("ledger", "blacklisted")
    'They crashed their consumer, and are not delivered again.'
    """
    return EXPLANATIONS[kind].get(code, "")
