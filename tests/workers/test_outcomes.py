"""The outcome rows fit the table that they are written to."""

import time
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.attempt import ATTEMPT_COLUMNS
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.policies.domain.retry_schedule import retry_after_ms
from poisonadmin.store.models.attempt import Attempt
from tests.workers.sinks import delivery
from workers.delivery.deliveries import attempt_row, fail, storable
from workers.delivery.run import instant

_TYPES = {
    "BigIntegerField": "int8",
    "IntegerField": "int4",
    "SmallIntegerField": "int2",
    "CharField": "text",
    "TextField": "text",
    "DateTimeField": "timestamptz",
    "BinaryField": "bytea",
}


def test_the_declared_columns_are_exactly_those_of_the_attempt_table():
    declared = {one.name: (one.type, one.max_chars, one.is_nullable) for one in ATTEMPT_COLUMNS}
    assert declared == {
        field.column: (_TYPES[field.get_internal_type()], field.max_length, field.null)
        for field in Attempt._meta.local_concrete_fields
        if field.column
    }


@given(st.text(st.characters()), st.integers(1, 50))
def test_every_text_becomes_storable_and_no_longer_than_allowed(text, limit):
    stored = storable(text, limit)
    assert len(stored) <= limit
    assert "\0" not in stored
    assert stored.encode("utf-8").decode("utf-8") == stored


@given(st.text(), st.text(), st.none() | st.text(), st.none() | st.text(), st.integers(100, 999))
def test_no_failure_whatever_it_says_is_without_a_row(name, message, cause, wish, status):
    now = instant(time.time())
    run = SimpleNamespace(claim_id=1, shard=0, offset=0.0)
    row = attempt_row(run, delivery(), Outcome.DELIVERED, (now, now), status_code=status, response=b"x")
    row.retry_after_ms = None if wish is None else retry_after_ms(wish, now=now)
    fail(row, Failure(name, message, cause_class=cause, stack=message))
    assert row.outcome is Outcome.FAILED
    assert len(row.fingerprint) == 16
    for text in (row.error_class, row.cause_class, row.error_message, row.stack, row.title):
        assert text is None or (text.encode() is not None and "\0" not in text)
