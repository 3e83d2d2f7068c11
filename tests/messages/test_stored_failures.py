"""A row of the failure log says all that its fingerprint was made of."""

from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.groups.domain.failures import MAX_TITLE_CHARS, Failure, fingerprint, stored_failure, title
from poisonadmin.messages.domain.outcomes import Outcome
from workers.delivery.deliveries import attempt_row, fail


class _Run:
    claim_id, shard, offset = 1, 0, 0.0


class _Delivery:
    message_id, attempt_number, destination_id = 1, 1, 1


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(st.builds(Failure, TEXT, TEXT, st.none() | TEXT, st.lists(TEXT.filter(bool), max_size=2).map(tuple), TEXT))
def test_what_is_stored_of_a_delivery_has_the_fingerprint_that_it_is_stored_with(failure: Failure) -> None:
    begun = attempt_row(_Run(), _Delivery(), Outcome.DELIVERED, (None, timezone.now()))  # type: ignore[arg-type]
    row = fail(begun, failure)
    assert row.outcome is Outcome.FAILED
    found = stored_failure(
        error_class=row.error_class or "",
        cause_class=row.cause_class,
        message=row.error_message or "",
        stack=row.stack or "",
        title=row.title or "",
        is_reported=False,
    )
    if found is None:
        assert len(row.title or "") == MAX_TITLE_CHARS
    elif len(failure.exception_class) < 256 and len(failure.cause_class or "") < 256:
        assert (fingerprint(found), title(found).replace("\0", "\ufffd")) == (row.fingerprint, row.title)
