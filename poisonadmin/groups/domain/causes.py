"""Likely causes of a failure group, by rules, and what its latest failures have in common."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.messages.domain.outcomes import CRASHES

# So much of the latest failures has to speak for a cause, or share a value.
MOST = 0.8
_AWAY = re.compile(r"(?i)timeout|timedout|connect|unreachable|unknownhost|dnserror|tlserror|confirmlost|notsent")
_BUSY = re.compile(r"(?i)toomany|ratelimit|throttl|outofmemory|rejectedexecution|poolexhausted")
_CONTENT = re.compile(r"(?i)parse|json|deseriali[sz]|schema|validation|malformed|decod|encod|missingfield")
# Other answers of 4xx are about the caller, the place or the moment.
_ABOUT_CONTENT = {400, 406, 409, 410, 411, 412, 413, 415, 422}


@dataclass(frozen=True)
class RecentFailure:
    """The latest failure of a message of the group.

    `is_delivered`: the message was delivered since, and nobody had to decide on it. `original_address`: where it was
    before it was dead-lettered, None where that is unknown.
    """

    message_id: int
    finished_at: datetime
    address: str
    destination: str | None
    outcome: str
    error_class: str | None
    status_code: int | None
    consumer_version: str | None
    is_delivered: bool
    original_address: str | None = None


@dataclass(frozen=True)
class Cause:
    """A likely cause. `kind`: transient, version, content, capacity or poison. `message_ids`: the messages that speak
    for it, the latest first, of `total` that were read."""

    kind: str
    sentence: str
    message_ids: tuple[int, ...]
    total: int

    @property
    def evidence(self) -> str:
        """Return how many messages it rests on."""
        return f"{len(self.message_ids):,} of the latest {self.total:,} message{'' if self.total == 1 else 's'}"


@dataclass(frozen=True)
class SharedValue:
    """A value that `count` of the latest failures share."""

    name: str
    value: str
    count: int


_Speaks = Callable[[RecentFailure], bool]
_RULES: tuple[tuple[str, str, _Speaks], ...] = (
    (
        "transient",
        "It passes by itself: most of its messages were delivered later without a decision.",
        lambda one: one.is_delivered,
    ),
    (
        "capacity",
        "The consumer has too much to do.",
        lambda one: one.status_code in {429, 503} or _named(_BUSY, one),
    ),
    (
        "transient",
        "The consumer was out of reach, or did not answer in time.",
        lambda one: one.status_code in {408, 502, 504} or _named(_AWAY, one),
    ),
    (
        "content",
        "The consumer refuses the content of the messages.",
        lambda one: one.status_code in _ABOUT_CONTENT or _named(_CONTENT, one),
    ),
)


def _named(pattern: re.Pattern[str], one: RecentFailure) -> bool:
    name = (one.error_class or "").rpartition(".")[2]
    return one.outcome not in CRASHES and pattern.search(name) is not None


def causes(recent: Sequence[RecentFailure], *, began_with: str | None = None) -> list[Cause]:
    """Return what the latest failures speak for; several causes may hold together, and often none does.

    `began_with`: the version of the consumer that came into use last before the first failure.

    >>> at = datetime(2026, 1, 1)
    >>> def failed(id, status):
    ...     return RecentFailure(id, at, "orders", "shop", "failed", "HttpStatusError", status, "2.4", False)
    >>> found = causes([failed(id, 422) for id in range(20)], began_with="2.4")
    >>> [(one.kind, one.evidence) for one in found]
    [('version', '20 of the latest 20 messages'), ('content', '20 of the latest 20 messages')]
    >>> causes([failed(id, 500) for id in range(20)])
    []
    """
    crashed = [one.message_id for one in recent if one.outcome in CRASHES]
    stated = [one for one in recent if one.consumer_version is not None]
    found = [("poison", "It crashes its consumer.", crashed)] if crashed else []
    if began_with is not None and stated and all(one.consumer_version == began_with for one in stated):
        sentence = f"It began with version {began_with}, and no other version fails so."
        found.append(("version", sentence, [one.message_id for one in stated]))
    for kind, sentence, speaks in _RULES:
        ids = [one.message_id for one in recent if speaks(one)]
        if ids and len(ids) >= MOST * len(recent):
            found.append((kind, sentence, ids))
    return [Cause(kind, sentence, tuple(ids), len(recent)) for kind, sentence, ids in found]


def in_common(recent: Sequence[RecentFailure]) -> list[SharedValue]:
    """Return what most of the latest failures share; empty where there is one alone, which shares nothing."""
    values = {
        "address": lambda one: one.address,
        "original address": lambda one: None if one.original_address == one.address else one.original_address,
        "destination": lambda one: one.destination,
        "HTTP status": lambda one: one.status_code,
        "consumer version": lambda one: one.consumer_version,
    }
    if len(recent) < 2:
        return []
    most = {name: Counter(map(value, recent)).most_common(1)[0] for name, value in values.items()}
    return [
        SharedValue(name, str(value), count)
        for name, (value, count) in most.items()
        if value is not None and count >= MOST * len(recent)
    ]
