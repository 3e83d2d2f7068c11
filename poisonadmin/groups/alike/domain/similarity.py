"""The likeness of two failures: exactly, and as a set of tokens by which a hash finds pairs worth comparing."""

import re
from collections.abc import Collection, Iterable, Sequence

from poisonadmin.groups.alike.domain.compared import ComparedFailure

# So alike, and it is proposed to merge the groups.
ALIKE = 0.75
# Pairs whose sets of tokens share less cannot be so alike; no need to look at them.
WORTH_COMPARING = 0.45
_FRAMES, _WORDS, _KIND = 0.6, 0.25, 0.15
_WORDS_ALONE, _KIND_ALONE = 0.7, 0.3
# Without frames the words are all there is. One of them may be a name that nothing masks; with more it is another one.
_WORDS_A_NAME = 20
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHORTEST_PART = 3
# The nearer to the cause, the more a frame tells; what called it all is the same for most failures of a program.
_NEAR = (5, 3, 3)
_KIND_TOKENS = 3
# Of failures with a stack: a long message must not outweigh it.
_MOST_WORD_TOKENS = 12


def similarity(one: ComparedFailure, other: ComparedFailure, vocabulary: Collection[str] = ()) -> float:
    """Return how alike they are, 0..1: the weighted mean of what their frames, messages and kinds share.

    Frames count by weight, those nearest to the cause most. A failure with frames and one without are not alike.
    Messages without frames may differ in one word, and one more in twenty, that may be a name: not in small letters,
    and not in the `vocabulary` of the programs.

    >>> one = ComparedFailure("KeyError", "<text>", ("a.py:f", "a.py:g", "a.py:h"))
    >>> other = ComparedFailure("KeyError", "<text>", ("a.py:e", "a.py:f", "a.py:g", "a.py:h"))
    >>> round(similarity(one, other), 2)
    0.81
    """
    words, kinds = _jaccard(one.words, other.words), _kinds(one.kind, other.kind)
    if not one.frames and not other.frames:
        return _WORDS_ALONE * words * _is_one_message(one.words, other.words, vocabulary) + _KIND_ALONE * kinds
    return _FRAMES * _frames(one.places, other.places) + _WORDS * words + _KIND * kinds


def vocabulary_of(failures: Iterable[ComparedFailure]) -> frozenset[str]:
    """Return the words that the programs' own names are made of, as frames have them, in small letters.

    >>> sorted(vocabulary_of([ComparedFailure("E", "", ("com.shop.OrderService.loadPrices", "a/b_c.py:split_order"))]))
    ['com', 'load', 'order', 'price', 'service', 'shop', 'split']
    """
    places = {frame for failure in failures for frame in failure.frames}
    parts = {part for place in places for part in _PARTS.findall(place)}
    return frozenset(_bare(part) for part in parts if len(part) >= _SHORTEST_PART)


def _bare(word: str) -> str:
    return word.lower().removesuffix("s")


def tokens(failure: ComparedFailure) -> list[str]:
    """Return what a MinHash compares: a set in which what tells more has several members, so that its Jaccard index
    goes with `similarity`."""
    frames = [f"f{n}:{place}" for at, place in enumerate(failure.places) for n in range(_weight(at))]
    words = failure.words[:_MOST_WORD_TOKENS] if failure.frames else failure.words
    kinds = [f"k{n}:{_short(failure.kind)}" for n in range(_KIND_TOKENS)]
    return [*frames, *(f"w:{word}" for word in words), *kinds]


def _frames(one: Sequence[str], other: Sequence[str]) -> float:
    weights: dict[str, int] = {}
    for places in (one, other):
        for at, place in enumerate(places):
            weights[place] = max(_weight(at), weights.get(place, 0))
    shared = {*one} & {*other}
    return sum(weights[place] for place in shared) / sum(weights.values())


def _is_one_message(one: Collection[str], other: Collection[str], vocabulary: Collection[str]) -> bool:
    ours, theirs = {*one} - {*other}, {*other} - {*one}
    return max(len(ours), len(theirs)) <= 1 + min(len(one), len(other)) // _WORDS_A_NAME and all(
        _may_be_a_name(word, vocabulary) for word in ours | theirs
    )


def _may_be_a_name(word: str, vocabulary: Collection[str]) -> bool:
    is_plain = word.isalpha() and word.islower()
    return not is_plain and _bare(word) not in vocabulary


def _weight(at: int) -> int:
    return _NEAR[at] if at < len(_NEAR) else 1


def _jaccard(one: Collection[str], other: Collection[str]) -> float:
    union = {*one, *other}
    return len({*one} & {*other}) / len(union) if union else 1.0


def _kinds(one: str, other: str) -> float:
    return 1.0 if one == other else 0.5 if _short(one) == _short(other) else 0.0


def _short(kind: str) -> str:
    return kind.rsplit(".", 1)[-1]
