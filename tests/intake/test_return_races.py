"""A dead letter that comes back while somebody else changes its message, and the other way round."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.commands.confirmations import NotDelivered, confirm
from poisonadmin.messages.commands.counts import fold
from poisonadmin.sources.commands.draining import merge_left_over
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Message
from tests.faults.invariants import all_broken
from tests.fixtures.delivery import make_destination, states
from tests.intake.staging import drained, letter, make_source
from tests.messages import test_races as races
from tests.messages.overlap import overlap, rows, together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _shop(transactional_db: None) -> Iterator[None]:
    make_destination(max_delivery_attempts=1, redelivery_delay=0)
    make_source()
    yield
    fold()
    assert all_broken(rows) == []


def taken() -> int:
    """Return a message in DLVD."""
    message_id = races.delivered()
    settle()
    return message_id


def returning(message_id: int, attempt: int = 1) -> str:
    """Drain the message as a dead letter of its delivery."""
    merged = drained(Source.objects.get(), letter(back=(message_id, attempt)))
    return "done" if merged.returned else "known" if merged.duplicates else "later"


def confirming(message_id: int) -> str:
    """Say that the message is processed."""
    try:
        confirm(message_id, principal=SYSTEM)
    except NotDelivered:
        return "refused"
    return "done"


@pytest.mark.parametrize("second", list(races.STEPS))
def test_who_comes_while_a_message_is_opened_again_finds_it_open(second: str) -> None:
    message_id = taken()
    both = overlap(partial(returning, message_id), partial(races.STEPS[second], message_id))
    assert both.first == "done"
    if both.second == "done":
        assert second in {"approve", "mark_fail"}
        assert both.waited
    else:
        assert states([message_id]) == ["NDLV"]
        assert both.second in {"nothing", "NDLV"}


@pytest.mark.parametrize("second", list(races.STEPS))
def test_a_return_that_is_rolled_back_was_never_there(second: str) -> None:
    message_id = taken()
    overlap(partial(returning, message_id), partial(races.STEPS[second], message_id), first_is_kept=False)
    assert states([message_id]) == ["DLVD"]
    assert returning(message_id) == "done"


@pytest.mark.parametrize(("situation", "first", "state"), races.LEGAL)
def test_a_return_that_waits_for_another_change_goes_by_what_has_become_of_the_message(
    situation: Callable[[], int], first: str, state: str
) -> None:
    message_id = situation()
    attempt = max(1, Message.objects.get(id=message_id).attempt_number)
    both = overlap(partial(races.STEPS[first], message_id), partial(returning, message_id, attempt))
    if state == "DLVD":
        assert both.second == "done"
        assert states([message_id]) == ["NDLV"]
    elif state == "DLNG":
        assert both.second == "later"
    else:
        assert (both.second, states([message_id])) == ("known", [state])
    merge_left_over(Source.objects.get().id)


def test_of_many_returns_of_one_delivery_at_once_one_opens_the_message() -> None:
    message_id = taken()
    results = together(*[partial(returning, message_id)] * 5)
    assert sorted(results) == ["done", "known", "known", "known", "known"]
    assert rows("SELECT count(*) FROM history WHERE event = 'returned'") == [(1,)]


def test_a_word_and_a_return_at_once_leave_one_story() -> None:
    message_id = taken()
    both = overlap(partial(confirming, message_id), partial(returning, message_id))
    assert (both.first, both.second) == ("done", "done")
    assert rows("SELECT count(*) FROM confirmation") == [(0,)]
    message_id = taken()
    both = overlap(partial(returning, message_id), partial(confirming, message_id))
    assert (both.first, both.second) == ("done", "refused")
    assert rows("SELECT count(*) FROM confirmation") == [(0,)]
