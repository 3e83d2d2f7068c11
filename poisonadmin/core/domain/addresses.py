"""Addresses, patterns over them, and which pattern is the more specific one (ART-12, ART-18).

An address is words separated by dots. In a pattern `*` stands for one word and `#` for any number of words, none
included, as in an Artemis address-setting.
"""

from collections.abc import Iterable, Sequence

from poisonadmin.core.domain.errors import PoisonAdminError

MAX_ADDRESS_CHARS = 255
ONE_WORD = "*"
ANY_WORDS = "#"

Specificity = tuple[int, int, tuple[int, ...], str]


class InvalidAddress(PoisonAdminError):
    """Raised when a text is not an address, or not a pattern where a pattern is needed."""

    code = "invalid_address"


def validate_address(text: str) -> str:
    """Return `text` when it is an address; raise `InvalidAddress` saying what is wrong with it.

    >>> validate_address("orders.eu.created")
    'orders.eu.created'
    """
    _validate_words(text, what="address")
    if ONE_WORD in text or ANY_WORDS in text:
        raise InvalidAddress(f"{text!r} is not an address: the wildcards * and # belong in patterns.")
    return text


def validate_pattern(text: str) -> str:
    """Return `text` when it is a pattern (an address is one too); raise `InvalidAddress` otherwise.

    >>> validate_pattern("orders.#")
    'orders.#'
    """
    _validate_words(text, what="pattern")
    for word in text.split("."):
        if len(word) > 1 and (ONE_WORD in word or ANY_WORDS in word):
            raise InvalidAddress(f"{text!r} is not a pattern: a wildcard stands for whole words, {word!r} mixes.")
    return text


def _validate_words(text: str, *, what: str) -> None:
    article = "an" if what == "address" else "a"
    if not isinstance(text, str):
        raise InvalidAddress(f"The {what} must be a string.")
    if not 1 <= len(text) <= MAX_ADDRESS_CHARS:
        raise InvalidAddress(f"The {what} must have 1 to {MAX_ADDRESS_CHARS} characters, it has {len(text)}.")
    # str.isprintable refuses control characters, lone surrogates and every space but U+0020.
    if not text.isprintable() or " " in text:
        raise InvalidAddress(f"{text!r} is not {article} {what}: spaces and unprintable characters are not allowed.")
    if "" in text.split("."):
        raise InvalidAddress(f"{text!r} is not {article} {what}: a word between dots is empty.")


def is_pattern(text: str) -> bool:
    """Return whether `text` uses a wildcard."""
    return ONE_WORD in text or ANY_WORDS in text


def matches(pattern: str, address: str) -> bool:
    """Return whether `pattern` covers `address`.

    >>> matches("orders.#", "orders"), matches("orders.*", "orders.eu.created")
    (True, False)
    """
    return _match_words(pattern.split("."), address.split("."))


def _match_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    # Only the last `#` seen can usefully take one more word, so this stays within len(pattern) * len(words) steps.
    at = word = 0
    resume_at, resume_word = -1, 0
    while word < len(words):
        if at < len(pattern) and pattern[at] == ANY_WORDS:
            resume_at, resume_word = at, word
            at += 1
        elif at < len(pattern) and pattern[at] in (ONE_WORD, words[word]):
            at += 1
            word += 1
        elif resume_at >= 0:
            resume_word += 1
            at, word = resume_at + 1, resume_word
        else:
            return False
    return all(rest == ANY_WORDS for rest in pattern[at:])


def specificity(pattern: str) -> Specificity:
    """Return a sort key that puts the most specific pattern first, in the order that Artemis merges settings.

    A literal comes before patterns with `*`, those before patterns with `#`. Among patterns with `#` the longer text
    is the more specific; among the others the one whose first wildcard comes later. Ties are broken by the text.

    >>> sorted(["#", "orders.#", "orders.*", "orders.eu", "*.eu"], key=specificity)
    ['orders.eu', 'orders.*', '*.eu', 'orders.#', '#']
    """
    words = pattern.split(".")
    shape = tuple(2 if word == ANY_WORDS else 1 if word == ONE_WORD else 0 for word in words)
    rank = max(shape)
    return rank, -len(pattern) if rank == 2 else 0, shape, pattern


class _PatternNode:
    """A word in the tree of patterns; `order` is the place in the precedence of the pattern that ends here."""

    __slots__ = ("any_words", "children", "is_any_words", "one_word", "order")

    def __init__(self, *, is_any_words: bool = False) -> None:
        self.children: dict[str, _PatternNode] = {}
        self.one_word: _PatternNode | None = None
        self.any_words: _PatternNode | None = None
        self.is_any_words = is_any_words
        self.order: int | None = None

    def child(self, word: str) -> "_PatternNode":
        if word == ANY_WORDS:
            self.any_words = self.any_words or _PatternNode(is_any_words=True)
            return self.any_words
        if word == ONE_WORD:
            self.one_word = self.one_word or _PatternNode()
            return self.one_word
        return self.children.setdefault(word, _PatternNode())


class PatternIndex:
    """Many patterns compiled into one tree, so that an address is matched against all of them at once."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compile `patterns`; raise `InvalidAddress` for one that is none. Repetitions count once."""
        self.patterns = tuple(sorted({validate_pattern(pattern) for pattern in patterns}, key=specificity))
        self._root = _PatternNode()
        for order, pattern in enumerate(self.patterns):
            node = self._root
            for word in pattern.split("."):
                node = node.child(word)
            node.order = order

    def matching(self, address: str) -> tuple[str, ...]:
        """Return the patterns that cover `address`, most specific first."""
        # All branches advance together, a node once at most: many `#` in one pattern cannot make this exponential.
        live = _with_empty_runs([self._root])
        for word in address.split("."):
            live = _with_empty_runs(_advance(live, word))
        found = sorted(node.order for node in live if node.order is not None)
        return tuple(self.patterns[order] for order in found)


def _advance(nodes: Iterable[_PatternNode], word: str) -> list[_PatternNode]:
    reached = []
    for node in nodes:
        if node.is_any_words:
            reached.append(node)
        if node.one_word is not None:
            reached.append(node.one_word)
        if (literal := node.children.get(word)) is not None:
            reached.append(literal)
    return reached


def _with_empty_runs(nodes: Iterable[_PatternNode]) -> dict[_PatternNode, None]:
    live: dict[_PatternNode, None] = {}
    for node in nodes:
        step: _PatternNode | None = node
        while step is not None and step not in live:
            live[step] = None
            step = step.any_words
    return live
