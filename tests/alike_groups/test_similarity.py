"""How alike two failures are, and what they are said to share: a table of near-duplicates and of others."""

import time

import pytest

from poisonadmin.groups.alike.domain.differences import MarkedText, frame_pairs, in_words, marked_words
from poisonadmin.groups.alike.domain.similarity import (
    ALIKE,
    MAX_FRAMES,
    MAX_MESSAGE_CHARS,
    ComparedFailure,
    compared,
    compared_from,
    similarity,
    tokens,
    vocabulary_of,
)
from poisonadmin.groups.domain.failures import Failure
from tests.alike_groups.planted import exactly, plant

FRAMES = tuple(f"com.shop.orders.Orders{n}.apply" for n in range(8))
NAMES = ("#1", "#2")


def failed(
    *frames: str, kind: str = "com.shop.Rejected", message: str = "order <n> is in state CLOSED"
) -> ComparedFailure:
    return ComparedFailure(kind, message, frames)


BASE = failed(*FRAMES)
TEXT = "HTTP 422 Unprocessable: the order of customer Ada has no price"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, failed("com.shop.orders.Guard.check", *FRAMES)),
        (BASE, failed(*FRAMES[:4], "com.shop.orders.Retry.call", *FRAMES[4:])),
        (BASE, failed(*(frame.replace("com.shop", "com.example.shop") for frame in FRAMES))),
        (BASE, failed(*FRAMES, kind="com.shop.errors.OrderFailed")),
        (BASE, failed(*FRAMES[:-3], message="order <n> is in state OPEN")),
        (failed(message=TEXT), failed(message=TEXT.replace("Ada", "Bob"))),
        (failed(kind="javax.jms.JMSException", message=TEXT), failed(kind="jakarta.jms.JMSException", message=TEXT)),
    ],
    ids=["a frame more", "a frame between", "moved", "another class", "fewer callers", "another name", "renamed class"],
)
def test_near_duplicates_are_alike(one: ComparedFailure, other: ComparedFailure) -> None:
    assert ALIKE <= similarity(one, other) == similarity(other, one)
    assert similarity(one, one) == 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, failed("com.shop.prices.Prices.load", *FRAMES[1:])),
        (BASE, failed("com.shop.prices.Prices.load", "com.shop.prices.Prices.all", *FRAMES[2:])),
        (BASE, failed(*FRAMES, kind="java.lang.NullPointerException", message="Cannot invoke <text>")),
        (failed("a.Orders.total", message=TEXT), failed("a.Prices.load", message=TEXT)),
        (BASE, failed(message=BASE.message)),
        (failed(message=TEXT), failed(message=TEXT.replace("Ada", "Bob").replace("price", "stock"))),
        (failed(kind="a.First", message="gone"), failed(kind="a.Second", message="gone")),
        (failed(message=""), failed(kind="a.Other", message="")),
    ],
    ids=[
        "another place", "other places", "another error at the place", "one word of many programs", "no stack",
        "two other words", "a short message", "no message",
    ],
)  # fmt: skip
def test_different_failures_are_not(one: ComparedFailure, other: ComparedFailure) -> None:
    assert similarity(one, other) == similarity(other, one) < ALIKE


def test_a_word_that_the_programs_use_or_that_is_no_name_makes_another_failure() -> None:
    vocabulary = vocabulary_of([failed("com.shop.PriceService.loadStocks"), failed("shop/carts.py:split_order")])
    text = "HTTP 422 Unprocessable: the {} of customer {} has no {} to {}"
    one = failed(message=text.format("Order", "Ada", "Price", "load"))
    for other, is_alike in (
        (("Order", "Bob", "Price", "load"), True),
        (("Order", "Bob-7", "Price", "load"), True),
        (("Stock", "Ada", "Price", "load"), False),
        (("Orders", "Ada", "Stock", "load"), False),
        (("Order", "Ada", "Price", "split"), False),
        (("Order", "Ada", "Price", "guess"), False),
        (("Order", "Bob", "Stock", "load"), False),
    ):
        score = similarity(one, failed(message=text.format(*other)), vocabulary)
        assert (score >= ALIKE) is is_alike, other
    # With a stack, words are a part of it only.
    assert similarity(BASE, failed(*FRAMES, message="order <n> is in state price"), vocabulary) >= ALIKE


def test_an_http_answer_with_another_status_is_another_failure() -> None:
    one, other = (compared(Failure("HttpStatusError", f"HTTP {status} upstream failed")) for status in (502, 503))
    assert (one.kind, other.kind) == ("HttpStatusError 502", "HttpStatusError 503")
    assert similarity(one, other) < ALIKE


def test_names_that_frameworks_make_up_are_left_out() -> None:
    stack = """java.lang.IllegalStateException: no
\tat com.shop.Order$HibernateProxy$4f7Bc2.total(Unknown Source)
\tat com.shop.Prices_ClientProxy.load(Unknown Source)
\tat com.shop.Prices.lambda$load$3(Prices.java:7)
\tat com.shop.Prices$$EnhancerBySpringCGLIB$$1b2c.all(<generated>)
\tat jdk.proxy2/jdk.proxy2.$Proxy33.all(Unknown Source)
\tat org.springframework.aop.Advised.proceed(Advised.java:1)
\tat com.shop.Orders.apply(Orders.java:12)
\tat com.shop.Orders.apply(Orders.java:14)"""
    found = compared(Failure("java.lang.IllegalStateException", "no", stack=stack))
    assert found.frames == (
        "com.shop.Order.total",
        "com.shop.Prices.load",
        "com.shop.Prices.lambda$load",
        "com.shop.Orders.apply",
    )


def test_words_with_something_masked_in_them_are_one_word() -> None:
    found = compared(Failure("E", "Order A17b, of 'ada': 3 items. (Retry 4711!)"))
    assert found.words == ("Order", "<id>", "of", "<text>", "<n>", "items", "Retry")


def test_hostile_failures_are_cut() -> None:
    stack = "\n".join(f"\tat com.shop.A{n}.{'x' * 500}(A.java:1)" for n in range(20_000))
    begun = time.monotonic()
    found = compared(Failure("E\0" * 10_000, "\0\N{RIGHT-TO-LEFT OVERRIDE}<b> " * 100_000, stack=stack))
    assert time.monotonic() - begun < 2
    assert len(found.frames) <= MAX_FRAMES
    assert len(found.message) <= MAX_MESSAGE_CHARS
    assert "\0" not in str(found.as_json())
    assert compared_from(found.as_json()) == found
    assert len(tokens(found)) == len({*tokens(found)}) < 200
    assert len(in_words(found, BASE, names=NAMES)) < 5_000


def test_it_is_said_what_they_share_and_where_they_differ() -> None:
    other = failed("com.shop.orders.Guard.check", *FRAMES[:7], message="order <n> is in state OPEN")
    assert in_words(BASE, other, names=NAMES) == (
        "The same: 7 of 9 frames, the class of the cause, 5 of 7 words."
        " Different: frame 1 is `com.shop.orders.Guard.check` in #2 only;"
        " frame 9 is `com.shop.orders.Orders7.apply` in #1 only; the words `CLOSED` in #1, `OPEN` in #2."
    )
    many = failed(*(f"com.shop.Z{n}.run" for n in range(8)), kind="E", message="")
    assert in_words(BASE, many, names=NAMES) == (
        "Different: frame 1 is `com.shop.orders.Orders0.apply` in #1, `com.shop.Z0.run` in #2;"
        " frame 2 is `com.shop.orders.Orders1.apply` in #1, `com.shop.Z1.run` in #2;"
        " frame 3 is `com.shop.orders.Orders2.apply` in #1, `com.shop.Z2.run` in #2; 5 more frames;"
        " the class of the cause is `com.shop.Rejected` in #1, `E` in #2;"
        " the words `order`, `<n>`, `is` and 3 more in #1."
    )
    moved = failed(*(frame.replace("com.shop", "com.other") for frame in FRAMES))
    assert in_words(BASE, moved, names=NAMES) == (
        "The same: all frames but for their packages, the class of the cause, the message."
    )


def test_frames_stand_side_by_side() -> None:
    pairs = frame_pairs(failed("a.A.a", "a.B.b", "a.C.c"), failed("b.A.a", "a.X.x", "a.Y.y", "a.C.c"))
    assert [(one.left, one.right, one.is_same) for one in pairs] == [
        ("a.A.a", "b.A.a", True),
        ("a.B.b", "a.X.x", False),
        (None, "a.Y.y", False),
        ("a.C.c", "a.C.c", True),
    ]
    assert marked_words(failed(message="no order, of Ada"), failed(message="no order")) == (
        [MarkedText("no order,", is_same=True), MarkedText("of Ada", is_same=False)],
        [MarkedText("no order", is_same=True)],
    )


def test_planted_near_duplicates_are_found_among_hundreds_of_others() -> None:
    found = exactly(plant(300, 60, seed=11))
    print(found)
    assert found.planted >= 60
    assert found.recall >= 0.95
    assert found.precision >= 0.9
