"""What a message handed in as a dead letter tells of its failure."""

from datetime import UTC, datetime

import pytest

from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.messages.domain.dead_letter import DeadLetter
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope


def told(**dead_letter: object) -> DeadLetter | None:
    return parse_envelope({"address": "dead", "payload": "", "dead_letter": dead_letter}).dead_letter


def test_nothing_need_be_told() -> None:
    assert told() == DeadLetter()


def test_all_that_is_told_is_kept() -> None:
    assert told(
        reason="rejected",
        exception_class="shop.OrderRejected",
        exception_message="order 7",
        stack="Traceback…",
        original_address="orders.eu",
        failed_at="2026-01-31T12:00:00Z",
        delivery_count=3,
    ) == DeadLetter(
        "rejected",
        "shop.OrderRejected",
        "order 7",
        "Traceback…",
        "orders.eu",
        datetime(2026, 1, 31, 12, tzinfo=UTC),
        3,
    )


@pytest.mark.parametrize(
    ("field", "limit"),
    [
        ("reason", LIMITS.reason_chars),
        ("exception_class", LIMITS.exception_class_chars),
        ("exception_message", LIMITS.exception_message_chars),
        ("stack", LIMITS.stack_chars),
    ],
)
def test_a_long_text_is_cut_rather_than_refused(field: str, limit: int) -> None:
    assert getattr(told(**{field: "x" * (limit + 1)}), field) == "x" * limit


def test_what_postgresql_cannot_hold_is_replaced_in_texts_for_people() -> None:
    dead_letter = told(exception_message="a\0b\ud800c")
    assert dead_letter is not None
    assert dead_letter.exception_message == "a\ufffdb?c"


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"why": "x"}, "unknown_field", "dead_letter.why"),
        ({"reason": 7}, "invalid_dead_letter", "dead_letter.reason"),
        ({"delivery_count": -1}, "invalid_dead_letter", "dead_letter.delivery_count"),
        ({"delivery_count": 2**31}, "invalid_dead_letter", "dead_letter.delivery_count"),
        ({"delivery_count": True}, "invalid_dead_letter", "dead_letter.delivery_count"),
        ({"delivery_count": "3"}, "invalid_dead_letter", "dead_letter.delivery_count"),
        ({"original_address": "orders.#"}, "invalid_address", "dead_letter.original_address"),
        ({"failed_at": "yesterday"}, "invalid_time", "dead_letter.failed_at"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field(fields: dict[str, object], code: str, field: str) -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        told(**fields)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_a_dead_letter_is_an_object() -> None:
    with pytest.raises(InvalidEnvelope, match="must be an object"):
        parse_envelope({"address": "dead", "payload": "", "dead_letter": "rejected"})
