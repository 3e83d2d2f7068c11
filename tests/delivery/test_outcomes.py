"""The outcome rows fit the table that they are written to."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.store.models.attempt import Attempt, Outcome
from workers.delivery.http import OutcomeRow
from workers.delivery.outcomes import DELIVERED, FAILED, storable


def test_a_row_has_exactly_the_columns_of_the_attempt_table():
    columns = [field.column for field in Attempt._meta.local_concrete_fields if field.column]
    assert [field.name for field in fields(OutcomeRow)] == columns


def test_outcomes_are_those_that_the_table_knows():
    assert {DELIVERED, FAILED} <= {str(outcome) for outcome in Outcome}


@given(st.text(st.characters()), st.integers(1, 50))
def test_every_text_becomes_storable_and_no_longer_than_allowed(text, limit):
    stored = storable(text, limit)
    assert len(stored) <= limit
    assert "\0" not in stored
    assert stored.encode("utf-8").decode("utf-8") == stored
