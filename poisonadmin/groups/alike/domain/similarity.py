"""The compared parts of a failure, all bounded (its kind, its masked message and the application's frames), and the
likeness of two failures: exactly, and as a set of tokens by which a hash finds pairs worth comparing.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from poisonadmin.groups.domain.failures import Failure, mask
from poisonadmin.groups.domain.stacks import MAX_FRAME_CHARS, application_frames

MAX_FRAMES = 40
MAX_MESSAGE_CHARS = 500
MAX_WORDS = 40
_MAX_KIND_CHARS = 255
_MAX_WORD_CHARS = 60
# Classes that frameworks make at run time or at build time around ours, and what makes their names differ.
_GENERATED = re.compile(
    r"\$(?:HibernateProxy|MockitoMock|ByteBuddy|EnhancerBy|FastClassBy|Proxy)\w{0,80}(?:\$\w{1,80})?"
    r"|\$\$[\w$]{1,160}|_(?:Subclass|ClientProxy)(?=\.)"
)
_STATUS = re.compile(r"HTTP (\d{3})\b")
_PLACEHOLDER = re.compile(r"<\w{1,5}>")
_EDGES = ".,:;!?()[]{}\"'`"
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


@dataclass(frozen=True)
class ComparedFailure:
    """One failure. `kind`: the class of the cause, with the status of an HTTP answer; `message`: masked; `frames`: the
    application's, the one nearest to the cause first, each once."""

    kind: str
    message: str
    frames: tuple[str, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the message in their order, each once; one that holds something masked is `<id>`.

        >>> ComparedFailure("E", "Order A<n>b, of Ada: <n> items, Ada", ()).words
        ('Order', '<id>', 'of', 'Ada', '<n>', 'items')
        """
        return tuple(self.written)

    @cached_property
    def written(self) -> Mapping[str, str]:
        """Each of the `words` as the message first has it.

        >>> ComparedFailure("E", "Order A<n>b, of Ada", ()).written["<id>"]
        'A<n>b'
        """
        found: dict[str, str] = {}
        for text in self.message.split():
            if word := word_of(text):
                found.setdefault(word, text.strip(_EDGES)[:_MAX_WORD_CHARS])
        return dict(islice(found.items(), MAX_WORDS))

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The frames as they are compared: class and method without the package, file and function, each once.

        >>> ComparedFailure("E", "", ("com.shop.old.Orders.total", "shop/orders.py:total")).places
        ('Orders.total', 'shop/orders.py:total')
        """
        return tuple(dict.fromkeys(place_of(frame) for frame in self.frames))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can carry it."""
        return {"kind": self.kind, "message": self.message, "frames": list(self.frames)}


def place_of(frame: str) -> str:
    """Return the frame without the package of its class."""
    return frame if ":" in frame else ".".join(frame.rsplit(".", 2)[-2:])


def word_of(text: str) -> str:
    """Return a word as it is compared: without punctuation around it; empty where nothing is left."""
    bare = text.strip(_EDGES)[:_MAX_WORD_CHARS]
    return "<id>" if _PLACEHOLDER.search(bare) and not _PLACEHOLDER.fullmatch(bare) else bare


def compared_from(stored: Mapping[str, Any]) -> ComparedFailure:
    """Return what `as_json` made."""
    return ComparedFailure(stored["kind"], stored["message"], tuple(stored["frames"]))


def compared(failure: Failure) -> ComparedFailure:
    """Return what is compared of a failure.

    >>> compared(Failure("HttpStatusError", "HTTP 503 Service Unavailable: order 7")).kind
    'HttpStatusError 503'
    """
    message = _clean(mask(failure.message))[:MAX_MESSAGE_CHARS]
    status = _STATUS.match(message)
    kind = _clean(failure.cause_class or failure.exception_class)[:_MAX_KIND_CHARS]
    own = [*failure.frames, *application_frames(failure.stack, most=MAX_FRAMES)]
    frames = dict.fromkeys(_GENERATED.sub("", _clean(frame[:MAX_FRAME_CHARS])) for frame in own)
    return ComparedFailure(f"{kind} {status[1]}" if status else kind, message, tuple(frames)[:MAX_FRAMES])


def _clean(text: str) -> str:
    return " ".join(text.replace("\0", "\ufffd").split())


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
