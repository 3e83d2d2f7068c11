"""Compares two failures word by word and frame by frame."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from poisonadmin.groups.alike.domain.similarity import ComparedFailure, place_of, word_of

_MOST_NAMED = 3


@dataclass(frozen=True)
class FramePair:
    """Frames side by side, None where one has none; `is_same` but for the packages of their classes."""

    left: str | None
    right: str | None
    is_same: bool


def frame_pairs(left: ComparedFailure, right: ComparedFailure) -> list[FramePair]:
    """Return the frames of both side by side, the one nearest to the cause first; what is the same stands together."""
    ours, theirs = _by_place(left), _by_place(right)
    matcher = SequenceMatcher(None, list(ours), list(theirs), autojunk=False)
    found: list[FramePair] = []
    for kind, start, end, first, last in matcher.get_opcodes():
        pairs = zip_longest([*ours.values()][start:end], [*theirs.values()][first:last])
        found += [FramePair(one, other, kind == "equal") for one, other in pairs]
    return found


@dataclass(frozen=True)
class MarkedText:
    """Words of a message in a row. `is_same`: the other message has each of them, too."""

    text: str
    is_same: bool


def marked_words(left: ComparedFailure, right: ComparedFailure) -> tuple[list[MarkedText], list[MarkedText]]:
    """Return both messages, their words marked by whether the other one has them.

    >>> marked_words(ComparedFailure("E", "no order of Ada", ()), ComparedFailure("E", "no order", ()))[0]
    [MarkedText(text='no order', is_same=True), MarkedText(text='of Ada', is_same=False)]
    """
    return _marked(left, {*right.words}), _marked(right, {*left.words})


def _marked(failure: ComparedFailure, others: Collection[str]) -> list[MarkedText]:
    runs = groupby(failure.message.split(), key=lambda text: not (word := word_of(text)) or word in others)
    return [MarkedText(" ".join(run), is_same) for is_same, run in runs]


def in_words(left: ComparedFailure, right: ComparedFailure, *, names: tuple[str, str]) -> str:
    """Return a text for people: what they share, and where they differ. `names`: of the left and the right one.

    >>> one = ComparedFailure("KeyError", "no <text>", ("a.py:f", "a.py:g"))
    >>> other = ComparedFailure("ValueError", "no <text>", ("a.py:f", "a.py:g"))
    >>> in_words(one, other, names=("#1", "#2"))
    'The same: all frames, the message. Different: the class of the cause is `KeyError` in #1, `ValueError` in #2.'
    """
    same: list[str] = []
    different: list[str] = []
    _say_frames(frame_pairs(left, right), names, same, different)
    if left.kind == right.kind:
        same.append("the class of the cause")
    else:
        different.append(f"the class of the cause is `{left.kind}` in {names[0]}, `{right.kind}` in {names[1]}")
    _say_words(left.written, right.written, names, same, different)
    parts = [f"The same: {', '.join(same)}."] if same else []
    return " ".join([*parts, *([f"Different: {'; '.join(different)}."] if different else [])])


def _by_place(failure: ComparedFailure) -> dict[str, str]:
    found: dict[str, str] = {}
    for frame in failure.frames:
        found.setdefault(place_of(frame), frame)
    return found


def _say_frames(pairs: Sequence[FramePair], names: tuple[str, str], same: list[str], different: list[str]) -> None:
    if not pairs:
        return
    shared = sum(one.is_same for one in pairs)
    if shared == len(pairs):
        is_moved = any(one.left != one.right for one in pairs)
        same.append(f"all frames{' but for their packages' if is_moved else ''}")
        return
    if shared:
        same.append(f"{shared} of {len(pairs)} frames")
    unlike = [(at, one) for at, one in enumerate(pairs, 1) if not one.is_same]
    different += [f"frame {at} is {_sides(one.left, one.right, names)}" for at, one in unlike[:_MOST_NAMED]]
    if len(unlike) > _MOST_NAMED:
        different.append(f"{len(unlike) - _MOST_NAMED} more frames")


def _sides(left: str | None, right: str | None, names: tuple[str, str]) -> str:
    if left is None or right is None:
        return f"`{left or right}` in {names[0] if left else names[1]} only"
    return f"`{left}` in {names[0]}, `{right}` in {names[1]}"


def _say_words(
    left: Mapping[str, str], right: Mapping[str, str], names: tuple[str, str], same: list[str], different: list[str]
) -> None:
    if not left and not right:
        return
    shared, union = {*left} & {*right}, {*left, *right}
    if shared == union:
        same.append("the message")
        return
    if shared:
        same.append(f"{len(shared)} of {len(union)} words")
    sides = [
        f"{_named([text for word, text in words.items() if word not in shared])} in {name}"
        for words, name in ((left, names[0]), (right, names[1]))
        if not shared.issuperset(words)
    ]
    different.append(f"the words {', '.join(sides)}")


def _named(words: Sequence[str]) -> str:
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(f"`{word}`" for word in words[:_MOST_NAMED]) + more
