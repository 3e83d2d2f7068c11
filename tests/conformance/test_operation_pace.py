"""Conformance OP-a, OP-c, OP-f: rate, pause and canary of an operation at the receiver's clock, for every member.

`python -m pytest -m long` here is the minute that the rates are promised for.
"""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest
from django.db import connection

from benchmarks import loads
from benchmarks.consumer import Arrival, Sink, running_sink
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from tests.conformance.local_redelivery import LocalRedelivery
from tests.fixtures.decisions import quarantine
from tests.operations.follow import ledger, state
from tests.whole_system.installation import until

NAMES = (f"pace{n}" for n in count())
# The shares of an operation's members on several addresses, or conversations.
SHARES = 4
MINUTE = 60


class Members(NamedTuple):
    """Messages that wait for a decision, and the path at which they arrive."""

    path: str
    ids: list[int]


class Begun(NamedTuple):
    """An operation on members, and what has arrived of it."""

    operation: int
    members: Members
    arrived: list[Arrival]

    @property
    def most_in_a_second(self) -> int:
        """The most that came within any second."""
        times = sorted(one.at for one in self.arrived)
        most = first = 0
        for last, at in enumerate(times):
            while times[first] <= at - 1:
                first += 1
            most = max(most, last - first + 1)
        return most

    @property
    def a_second(self) -> float:
        """How many came a second."""
        times = [one.at for one in self.arrived]
        return (len(times) - 1) / (max(times) - min(times))


@pytest.fixture(scope="module")
def sink(redelivery: LocalRedelivery) -> Iterator[Sink]:
    """Yield a receiver in a process of its own."""
    with running_sink() as running:
        yield running


def members(
    sink: Sink,
    kind: str,
    size: int,
    *,
    answer: str = "ok",
    conversations: int = SHARES,
    max_rate_per_second: float | None = None,
) -> Members:
    """Make members of a kind: on several addresses, in ordered conversations, candidates, or some of each.

    `max_rate_per_second`: of the destination.
    """
    name = next(NAMES)
    path = f"/{answer}/{name}"
    settings = {"redelivery_delay": 0, "max_delivery_attempts": 1}
    loads.deliver_to(name, sink.url(path), settings=settings)
    loads.deliver_to(name, sink.url(path), match=f"{name}.ordered.#", settings=settings | {"ordered": True})
    Destination.objects.filter(name=name).update(max_rate_per_second=max_rate_per_second)
    kinds = ("plain", "ordered", "candidates") if kind == "mixed" else (kind,)
    for each in kinds:
        for n in range(SHARES):
            begin_at = loads.database_now() + 10_000
            loads.fill(f"{name}.{each}.{n}", size // len(kinds) // SHARES, begin=begin_at)
    mine = Message.objects.filter(address__name__startswith=f"{name}.")
    with connection.cursor() as cursor:
        ordered = list(mine.filter(address__name__contains=".ordered.").values_list("id", flat=True))
        cursor.execute(
            "UPDATE envelope SET conversation_id = (id %% %s)::text WHERE id = ANY(%s)",
            [conversations // SHARES, ordered],
        )
    mine.filter(address__name__contains=".candidates.").update(candidate=True, crash_count=1)
    ids = sorted(mine.values_list("id", flat=True))
    quarantine(ids, principal=SYSTEM, reason="waits")
    return Members(path, ids)


def approve(some: Members, pace: Pace) -> Begun:
    """Begin to approve members."""
    selection = freeze(narrowed=Sql("m.id = ANY({ids})", ids=some.ids), principal=SYSTEM)
    terms = OperationTerms(pace)
    operation = begin(selection, OperationAction.APPROVE, reason="mended", principal=SYSTEM, terms=terms)
    return Begun(operation, some, [])


def collect(sink: Sink, begun: list[Begun], seconds: float) -> None:
    """Take what arrives in the time, or until everything has."""
    end = time.monotonic() + seconds
    while any(len(one.arrived) < len(one.members.ids) for one in begun) and time.monotonic() < end:
        time.sleep(0.2)
        for one in begun:
            one.arrived.extend(sink.take_arrivals(one.members.path))


def shown(kind: str, one: Begun, rate: float, most: float) -> None:
    """Print what arrived, and check that all did, and no more in any second than `most`."""
    begin = min(each.at for each in one.arrived)
    seconds = Counter(int(each.at - begin) for each in one.arrived)
    print(f"{kind} at {rate:g}/s: {len(one.arrived)}, {one.a_second:.2f}/s, at most {one.most_in_a_second}")
    print("in each second:", *(seconds[n] for n in range(max(seconds) + 1)))
    assert sorted(each.message_id for each in one.arrived) == one.members.ids, kind
    assert one.most_in_a_second <= most, kind


def paced(sink: Sink, rate: float, seconds: float, kinds: tuple[str, ...], conversations: int = SHARES) -> list[Begun]:
    """Approve members of each kind at the rate, all at the same time, and return what arrived."""
    size = 3 * SHARES * max(round(rate * seconds / 3 / SHARES), 1)
    made = {kind: members(sink, kind.removeprefix("canary "), size, conversations=conversations) for kind in kinds}
    begun = [approve(some, Pace(rate, has_canary=kind.startswith("canary"))) for kind, some in made.items()]
    collect(sink, begun, seconds * 1.6 + 60)
    for kind, one in zip(kinds, begun, strict=True):
        # In short, beside all other tests, a request that began in time may come late and fall among the next ones.
        shown(kind, one, rate, rate + (1 if seconds >= MINUTE else 2))
        until(lambda one=one: state(one.operation) == "completed", 20)  # type: ignore[misc]
    return begun


@pytest.mark.conformance("OP-a", "R16")
def test_op_a_no_second_has_more_than_the_rate_and_one_of_whatever_kind(sink: Sink) -> None:
    begun = paced(sink, 6.0, 5, ("plain", "ordered")) + paced(sink, 6.0, 5, ("candidates", "mixed"))
    assert min(one.a_second for one in begun) > 3, "it is reached, as far as a busy machine lets it be"


@pytest.mark.conformance("R16", "R19")
def test_r19_two_operations_at_a_destination_with_a_rate_share_it(sink: Sink) -> None:
    """Counted for each from the same moment, their slots let nine begin in a second at 6/s."""
    some = members(sink, "plain", 36, max_rate_per_second=6.0)
    for half in (some.ids[:18], some.ids[18:]):
        approve(Members(some.path, half), Pace(6.0))
    begun = Begun(0, some, [])
    collect(sink, [begun], 30)
    shown("two", begun, 6.0, 8)


def test_an_operation_without_a_rate_shows_soon_how_fast_a_new_destination_is(sink: Sink) -> None:
    some = members(sink, "plain", 1200)
    begun = approve(some, Pace())
    collect(sink, [begun], 60)
    assert sorted(each.message_id for each in begun.arrived) == some.ids
    assert Destination.objects.get(name=some.path.rpartition("/")[2]).window >= 128


@pytest.mark.long
@pytest.mark.parametrize("rate", [4.0, 6.0])
def test_a_rate_is_reached_over_a_minute_and_never_exceeded(sink: Sink, rate: float) -> None:
    begun = paced(sink, rate, MINUTE, ("plain", "ordered")) + paced(sink, rate, MINUTE, ("candidates", "mixed"))
    assert min(one.a_second for one in begun) >= 0.95 * rate
    paced(sink, rate, 40, ("canary plain", "canary ordered", "canary mixed"))


@pytest.mark.long
def test_a_high_rate_is_reached_over_a_minute_and_never_exceeded(sink: Sink) -> None:
    for kind in ("plain", "ordered"):
        [begun] = paced(sink, 400.0, MINUTE, (kind,), conversations=100 * SHARES)
        assert begun.a_second >= 0.95 * 400
    paced(sink, 400.0, 5, ("candidates", "mixed", "canary plain", "canary ordered"), conversations=100 * SHARES)


@pytest.mark.conformance("OP-c", "R16")
@pytest.mark.parametrize("kind", ["plain", "ordered", "candidates"])
def test_op_c_nothing_begins_two_seconds_after_a_pause_and_a_resume_finishes(sink: Sink, kind: str) -> None:
    begun = approve(members(sink, kind, 60, max_rate_per_second=20.0), Pace())
    change(begun.operation, OperationChange.PAUSE, reason="wait", principal=SYSTEM)
    time.sleep(2)
    begun.arrived.extend(sink.take_arrivals(begun.members.path))
    before = len(begun.arrived)
    collect(sink, [begun], 1.5)
    assert len(begun.arrived) == before
    change(begun.operation, OperationChange.RESUME, reason="go", principal=SYSTEM)
    collect(sink, [begun], 30)
    assert sorted(one.message_id for one in begun.arrived) == begun.members.ids


@pytest.mark.conformance("OP-f", "R16")
def test_op_f_a_canary_over_ordered_conversations_completes(sink: Sink) -> None:
    begun = approve(members(sink, "ordered", 40), Pace(has_canary=True))
    until(lambda: state(begun.operation) == "completed", 30)
    assert ledger(begun.operation) == {"delivered": 40}


@pytest.mark.conformance("OP-f", "R16", by="HTTP status")
def test_op_f_it_stops_by_itself_when_the_first_fails(sink: Sink) -> None:
    begun = approve(members(sink, "ordered", 40, answer="fail"), Pace(has_canary=True))
    until(lambda: state(begun.operation) == "halted", 30)
    assert len(sink.take_arrivals(begun.members.path)) == 1
    found = get_operation(begun.operation, principal=SYSTEM)
    assert (found.ledger.failed_new, found.ledger.unanswered) == (1, 39)
