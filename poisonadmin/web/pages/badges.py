"""Badges of pages: the colour and the word of a state, by its code."""

from typing import Any

# A state that is in no list is coloured as a warning.
_TONES = {
    "good": {"succeeded", "completed", "done", "clean", "on", "active", "taken", "begun", "sent"},
    "bad": {"failed", "refused", "lost", "silent", "stopped", "unreachable", "broken", "faulty", "retrying"},
    "busy": {"running", "cancelling", "alive", "due"},
    "note": {"queued", "fenced", "seen", "staged"},
    "": {"nothing", "inactive", "held", "dropped"},
}
_TONE_OF = {state: tone for tone, states in _TONES.items() for state in states}
_WORDS = {
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
    return {"tone": _TONE_OF.get(code, "warn"), "words": words or _WORDS.get(code, code)}


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
