"""Wildcards as Artemis documents them, and the order in which it merges matching settings."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.addresses import (
    InvalidAddress,
    PatternIndex,
    matches,
    specificity,
    validate_address,
    validate_pattern,
)

MATCHES = [
    # What the manual's page on the wildcard syntax says.
    ("news.europe.#", "news.europe", True),
    ("news.europe.#", "news.europe.sport", True),
    ("news.europe.#", "news.europe.politics", True),
    ("news.europe.#", "news.europe.politics.regional", True),
    ("news.europe.#", "news.usa", False),
    ("news.europe.#", "news.usa.sport", False),
    ("news.europe.#", "entertainment", False),
    ("news.*", "news.europe", True),
    ("news.*", "news.europe.sport", False),
    ("news.*.sport", "news.europe.sport", True),
    ("news.*.sport", "news.usa.sport", True),
    ("news.*.sport", "news.europe.politics", False),
    # Literals.
    ("orders", "orders", True),
    ("orders", "Orders", False),
    ("orders", "orders.eu", False),
    ("orders.eu", "orders", False),
    ("orders.eu", "orders.eu", True),
    ("orders.eu", "ordersXeu", False),
    # One word.
    ("*", "orders", True),
    ("*", "orders.eu", False),
    ("*.eu", "orders.eu", True),
    ("*.eu", "eu", False),
    ("orders.*", "orders", False),
    ("*.*", "orders.eu", True),
    ("*.*", "orders", False),
    ("orders.*.*", "orders.eu.created", True),
    ("orders.*", "ordersX.eu", False),
    # Any words.
    ("#", "orders", True),
    ("#", "orders.eu.created", True),
    ("orders.#", "orders", True),
    ("orders.#", "ordersX", False),
    ("orders.#", "orders.eu.created.late", True),
    ("#.created", "created", True),
    ("#.created", "orders.eu.created", True),
    ("#.created", "orders.created.late", False),
    ("orders.#.created", "orders.created", True),
    ("orders.#.created", "orders.eu.created", True),
    ("orders.#.created", "orders.eu.de.created", True),
    ("orders.#.created", "orders.eu.created.late", False),
    ("#.eu.#", "eu", True),
    ("#.eu.#", "orders.eu.created", True),
    ("#.eu.#", "orders.us.created", False),
    # Both.
    ("*.#", "orders", True),
    ("*.#", "orders.eu", True),
    ("#.*", "orders", True),
    ("orders.*.#", "orders", False),
    ("orders.*.#", "orders.eu.created", True),
    ("*.eu.#", "orders.eu", True),
    ("*.eu.#", "eu.orders", False),
    ("#.*.created", "created", False),
    ("#.*.created", "a.b.c.created", True),
    ("a.#.b.#.c", "a.b.c", True),
    ("a.#.b.#.c", "a.x.b.y.b.z.c", True),
    ("a.#.b.#.c", "a.x.c", False),
]

WORDS = st.sampled_from(["a", "b", "c"])
ADDRESSES = st.lists(WORDS, min_size=1, max_size=6).map(".".join)
PATTERNS = st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize(("pattern", "address", "expected"), MATCHES)
def test_a_pattern_covers_what_artemis_says_it_covers(pattern: str, address: str, expected: bool) -> None:
    assert matches(pattern, address) is expected
    assert PatternIndex([pattern]).matching(address) == ((pattern,) if expected else ())


def _by_regular_expression(pattern: str, address: str) -> bool:
    words = {"*": r"[^.]+\.", "#": r"(?:[^.]+\.)*"}
    return (
        re.fullmatch("".join(words.get(word, word + r"\.") for word in pattern.split(".")), address + ".") is not None
    )


@given(PATTERNS, ADDRESSES)
def test_matching_agrees_with_a_regular_expression(pattern: str, address: str) -> None:
    assert matches(pattern, address) is _by_regular_expression(pattern, address)


@given(st.lists(PATTERNS, max_size=12), ADDRESSES)
def test_the_index_finds_what_asking_each_pattern_finds(patterns: list[str], address: str) -> None:
    expected = sorted({pattern for pattern in patterns if matches(pattern, address)}, key=specificity)
    assert list(PatternIndex(patterns).matching(address)) == expected


@pytest.mark.parametrize(
    ("patterns", "because"),
    [
        ("orders.eu orders.* orders.# #", "a literal, one word, any words, everything"),
        ("orders.eu *.eu", "a literal before a wildcard"),
        ("orders.* *.eu", "the wildcard that comes later"),
        ("orders.eu.* orders.*.created *.eu.created", "the wildcard that comes later, three words"),
        ("orders.eu.* orders.*.*", "fewer wildcards"),
        ("*.* orders.#", "one word before any words, however little is said"),
        ("orders.eu.# orders.# #", "of those with any words, the longer"),
        ("#.created.x orders.#", "of those with any words, the longer text, wherever its wildcard is"),
        ("*.#.a #.a", "the longer text"),
    ],
)
def test_the_most_specific_pattern_comes_first(patterns: str, because: str) -> None:
    expected = patterns.split()
    shuffled = random.Random(because).sample(expected, len(expected))
    assert sorted(shuffled, key=specificity) == expected


def test_patterns_of_equal_rank_have_a_stable_order() -> None:
    assert PatternIndex(["a.#", "#.a"]).matching("a") == PatternIndex(["#.a", "a.#"]).matching("a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a b",
        "a\tb",
        "a\0b",
        "a\u200bb",
        "a\ud800",
        "\ufeffa",
        "*",
        "a.*",
        "a.#",
        "a#",
        "x" * 256,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress) as refused:
        validate_address(text)
    assert (refused.value.code, refused.value.status) == ("invalid_address", 400)


@pytest.mark.parametrize("value", [None, 7, ["orders"], b"orders"])
def test_what_is_no_text_is_no_address(value: object) -> None:
    with pytest.raises(InvalidAddress):
        validate_address(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["orders", "orders.eu.created", "_SYSTEM.Exception.Destination.engine", "DLA::DLQ.orders", "größe.日本", "x" * 255],
)
def test_an_address_is_returned_as_it_is(text: str) -> None:
    assert validate_address(text) == text
    assert validate_pattern(text) == text


@pytest.mark.parametrize("text", ["", "a..#", "ord*", "#x", "a.**", "a.##", "# "])
def test_a_wildcard_that_is_no_whole_word_is_no_pattern(text: str) -> None:
    with pytest.raises(InvalidAddress):
        validate_pattern(text)


def test_the_index_refuses_what_is_no_pattern() -> None:
    with pytest.raises(InvalidAddress):
        PatternIndex(["orders.#", "ord*"])


def test_many_any_words_in_one_pattern_do_not_explode() -> None:
    pattern = ".".join(["#", "a"] * 40)
    address = ".".join(["a"] * 120 + ["b"])
    assert not matches(pattern, address)
    assert PatternIndex([pattern]).matching(address) == ()
