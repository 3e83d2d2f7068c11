"""A message's history in words: what each change was, and what it meant for a suspicion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.delivery.domain.outcome import CRASHES
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.detail import AttemptRow, HistoryRow
from poisonadmin.messages.queries.lists import MessageRow
from poisonadmin.web.pages.crash_view import describe_crash
from poisonadmin.web.pages.words import event_words


@dataclass(frozen=True)
class Step:
    """One change, as `words`, and what it led to besides the state, as `meaning`. `tone`: good, bad or none."""

    row: HistoryRow
    words: str
    meaning: str
    tone: str


_DEATHS = (Event.CRASHED, Event.NODE_LOST)
_TONES: dict[str, str] = {State.DLVD: "good", State.NDLV: "bad", State.FAIL: "bad"}


def timeline(message: MessageRow, history: Sequence[HistoryRow], attempts: Sequence[AttemptRow]) -> list[Step]:
    """Return the steps, newest first, as the history and the attempts are."""
    tried = {attempt.attempt_number: attempt for attempt in attempts}
    steps = []
    is_suspect = False
    for row in reversed(history):
        attempt = tried.get(row.attempt_number)
        if row.event in _DEATHS:
            steps.append(_death(row, attempt, _suspicion(row, message, tried) if not is_suspect else ""))
            is_suspect = True
        elif row.event == Event.DELIVERED and is_suspect:
            alone = attempt is not None and attempt.is_alone
            steps.append(Step(row, "Cleared: delivered alone" if alone else "Cleared: delivered", "", "good"))
            is_suspect = False
        else:
            steps.append(Step(row, event_words(row.event), "", _TONES.get(row.to_state, "")))
    return steps[::-1]


def _suspicion(row: HistoryRow, message: MessageRow, tried: Mapping[int, AttemptRow]) -> str:
    following = tried.get(row.attempt_number + 1)
    if row.to_state != State.TBDL or not (following.is_alone if following else message.candidate):
        return ""
    return "A candidate from now on: delivered alone" if following else "A candidate from now on"


def _death(row: HistoryRow, attempt: AttemptRow | None, meaning: str) -> Step:
    words = describe_crash(attempt).sentence if attempt and attempt.outcome in CRASHES else event_words(row.event)
    return Step(row, words, meaning, "bad")
