"""The compared parts of a failure: its kind, its masked message and the application's frames, all bounded."""

import re
from collections.abc import Mapping
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
