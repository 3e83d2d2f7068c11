"""Which groups it is proposed to merge into which: stars of groups that are alike, around the one that stays."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from poisonadmin.groups.alike.domain.similarity import ALIKE, ComparedFailure, similarity, vocabulary_of

# The best; who has merged these asks again.
MAX_PROPOSALS = 1_000


class ProposalState(StrEnum):
    """The states of a proposal."""

    OPEN = "open"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class ComparedGroup:
    """A fingerprint that is compared. `id`: of its own group; `seen_as`: of the one that people see in its place.

    `attempt_number` is None of a message that is in the archive: its first failure with the fingerprint is compared.
    """

    id: int
    seen_as: int
    fingerprint: str
    message_id: int
    attempt_number: int | None


@dataclass(frozen=True)
class AskedGroups:
    """The fingerprints to be compared, those first that should stay. `files`: with the attempts of archived ones.

    `left_out`: how many there are besides.
    """

    groups: Sequence[ComparedGroup]
    left_out: int = 0
    files: Sequence[str] = ()


@dataclass(frozen=True)
class AlikeAnswer:
    """The result of a search: the number of compared fingerprints, pairs of ids worth comparing, and all failures."""

    compared: int
    pairs: Sequence[tuple[int, int]]
    failures: Mapping[int, ComparedFailure]


@dataclass(frozen=True)
class Proposal:
    """Merge the group `group` into `into`: of their fingerprints these two are most alike. `place`: its star's."""

    place: int
    into: ComparedGroup
    group: ComparedGroup
    similarity: float
    digest: str


def digest_of(*fingerprints: str) -> str:
    """Return what stays the same as long as two groups have these fingerprints together, in any order."""
    return hashlib.sha256(" ".join(sorted(fingerprints)).encode()).hexdigest()[:16]


def propose(groups: Sequence[ComparedGroup], answer: AlikeAnswer, *, dismissed: Collection[str]) -> list[Proposal]:
    """Return the proposals, best star first, at most `MAX_PROPOSALS`.

    `groups`: first those that should stay. `dismissed`: digests of pairs that are not proposed again. A group stays or
    goes, and goes once: to that which it is most like of those that stay.
    """
    by_id = {group.id: group for group in groups}
    alike = _alike(by_id, answer)
    digests = _Digests(groups)
    stays: set[int] = set()
    goes: list[int] = []
    for seen_as in dict.fromkeys(group.seen_as for group in groups):
        neighbours = [one for one in alike.get(seen_as, {}) if digests.of(seen_as, one) not in dismissed]
        if stays.isdisjoint(neighbours):
            stays.add(seen_as)
        else:
            goes.append(seen_as)
    found = []
    for seen_as in goes:
        into = max(
            (one for one in alike[seen_as] if one in stays and digests.of(seen_as, one) not in dismissed),
            key=lambda one: (alike[seen_as][one][0], -one),
        )
        found.append((alike[seen_as][into], digests.of(seen_as, into)))
    best: dict[int, float] = defaultdict(float)
    for (score, _, theirs), _ in found:
        into = by_id[theirs].seen_as
        best[into] = max(best[into], score)
    places = {into: at for at, into in enumerate(sorted(best, key=lambda one: (-best[one], one)))}
    proposals = [
        Proposal(places[by_id[theirs].seen_as], by_id[theirs], by_id[own], score, digest)
        for (score, own, theirs), digest in found
    ]
    return sorted(proposals, key=lambda one: (one.place, -one.similarity, one.group.id))[:MAX_PROPOSALS]


class _Digests:
    """The digests of pairs of groups that people see."""

    def __init__(self, groups: Sequence[ComparedGroup]) -> None:
        self._fingerprints: dict[int, list[str]] = defaultdict(list)
        for group in groups:
            self._fingerprints[group.seen_as].append(group.fingerprint)

    def of(self, one: int, other: int) -> str:
        return digest_of(*self._fingerprints[one], *self._fingerprints[other])


# Of a group and another one: how alike they are, and by which two fingerprints, its own first.
_Pair = tuple[float, int, int]


def _alike(by_id: Mapping[int, ComparedGroup], answer: AlikeAnswer) -> Mapping[int, Mapping[int, _Pair]]:
    """Return of each group that people see those it is like, both ways; the best two fingerprints of each pair."""
    alike: dict[int, dict[int, _Pair]] = defaultdict(dict)
    vocabulary = vocabulary_of(answer.failures.values())
    for one, other in sorted({(min(pair), max(pair)) for pair in answer.pairs}):
        seen = by_id[one].seen_as, by_id[other].seen_as
        score = round(similarity(answer.failures[one], answer.failures[other], vocabulary), 4)
        if seen[0] != seen[1] and score >= ALIKE and score > alike[seen[0]].get(seen[1], (0.0,))[0]:
            alike[seen[0]][seen[1]] = (score, one, other)
            alike[seen[1]][seen[0]] = (score, other, one)
    return alike
