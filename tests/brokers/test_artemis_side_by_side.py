"""The same consumer that always fails, at a real Artemis and at PoisonAdmin, at once and with the same settings."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import pytest

from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_schedule import delay_ms
from tests.brokers.artemis import Artemis
from tests.brokers.artemis_queues import ArtemisQueues
from tests.brokers.exchange import read_all
from tests.brokers.messages import Sent
from tests.patience import on_this_machine
from tests.whole_system.consumer import consuming, refuses
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import Installation

COUNT = 10
DELAY_MS, MULTIPLIER, MOST_MS, ATTEMPTS = 500, 2.0, 3000, 6
POLICY = Policy(redelivery_delay=DELAY_MS, redelivery_delay_multiplier=MULTIPLIER, max_redelivery_delay=MOST_MS)
PLANNED = tuple(delay_ms(POLICY, failure) for failure in range(1, ATTEMPTS))
# Clocks are read to the millisecond, on both ends of a wait.
EARLY_MS = 20
ORIGIN = ("_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_ORIG_MESSAGE_ID")

Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Course:
    """What became of the messages somewhere: when each was delivered, in milliseconds, and what its dead letter says.

    `ids`: how the messages were called at the address where they failed. All by the producer's id.
    """

    deliveries: Times
    ids: Mapping[str, str]
    origins: Mapping[str, Mapping[str, str]]

    def waits(self) -> list[list[float]]:
        """Return all messages' waits before the second delivery, before the third and so on, in milliseconds."""
        return [
            sorted(later - sooner for sooner, later in steps)
            for steps in zip(*(pairwise(at) for at in self.deliveries.values()), strict=True)
        ]


@dataclass(frozen=True)
class SideBySide:
    """One address, here and there."""

    address: str
    dead: str
    artemis: Course
    poisonadmin: Course


@pytest.fixture(scope="module")
def went(artemis: Artemis, installation: Installation) -> Iterator[SideBySide]:
    """Yield how the messages went on both sides, which were tried at the same time."""
    name = f"side-{time.time_ns()}"
    address, dead = f"{name}.orders", f"dead.{name}"
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(_at_artemis, ArtemisQueues(artemis), address, dead)
        ours = _at_poisonadmin(installation, name, dead)
        yield SideBySide(address, dead, theirs.result(), ours)


def test_both_try_as_often(went: SideBySide) -> None:
    for course in (went.artemis, went.poisonadmin):
        assert [len(at) for at in course.deliveries.values()] == [ATTEMPTS] * COUNT


def test_both_wait_as_long_before_each_delivery(went: SideBySide) -> None:
    theirs, ours = went.artemis.waits(), went.poisonadmin.waits()

    shown = table(theirs, ours)
    print(shown)
    most = on_this_machine(1000)
    for planned, there, here in zip(PLANNED, theirs, ours, strict=True):
        assert min(there[0], here[0]) >= planned - EARLY_MS, shown
        assert abs(median(here) - median(there)) <= most, shown


def test_the_dead_letters_say_the_same_of_where_they_come_from(went: SideBySide) -> None:
    for course in (went.artemis, went.poisonadmin):
        assert course.origins == {
            number: dict(zip(ORIGIN, (went.address, went.address, course.ids[number]), strict=True))
            for number in numbers()
        }


def numbers() -> list[str]:
    """Return the producer's ids."""
    return [f"order-{n}" for n in range(COUNT)]


def table(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> str:
    """Return the waits as Markdown, in milliseconds: median and longest."""
    rows = [
        f"| {number} | {planned} | {median(there):.0f} ({there[-1]:.0f}) | {median(here):.0f} ({here[-1]:.0f}) |"
        for number, (planned, there, here) in enumerate(zip(PLANNED, theirs, ours, strict=True), start=2)
    ]
    return "\n".join(["| delivery | planned | Artemis | PoisonAdmin |", "|---|---|---|---|", *rows])


def _at_artemis(queues: ArtemisQueues, address: str, dead: str) -> Course:
    queues.settings(
        address,
        redeliveryDelay=DELAY_MS,
        redeliveryMultiplier=MULTIPLIER,
        maxRedeliveryDelay=MOST_MS,
        redeliveryCollisionAvoidanceFactor=0.0,
        maxDeliveryAttempts=ATTEMPTS,
        deadLetterAddress=dead,
    )
    queues.create(dead)
    queues.create(address)
    queues.publish(address, [Sent(b"an order", message_id=number) for number in numbers()])
    listed = queues.manage(f"queue.{address}", "listMessages", "")
    deliveries = defaultdict(list)
    for at, count, number in queues.fail(address, COUNT * ATTEMPTS):
        deliveries[number].append(float(at))
        assert count == len(deliveries[number])
    moved = {one.headers["number"]: one.headers for one in read_all(queues, dead, COUNT)}
    return Course(
        deliveries,
        {one["number"]: str(one["messageID"]) for one in listed},
        {number: _origin(headers) for number, headers in moved.items()},
    )


def _at_poisonadmin(installation: Installation, name: str, dead: str) -> Course:
    with consuming(refuses) as consumer:
        destination = HttpDestination.create(
            installation,
            name,
            consumer,
            preset="artemis",
            redelivery_delay=DELAY_MS,
            redelivery_delay_multiplier=MULTIPLIER,
            max_redelivery_delay=MOST_MS,
            max_delivery_attempts=ATTEMPTS,
            dead_letter_address=dead,
        )
        sent = {number: destination.send("an order", message_id=number) for number in numbers()}
        for one in sent.values():
            destination.until(one, "NDLV", on_this_machine(60))
        deliveries = {
            number: [one.at * 1000 for one in destination.arrivals(message)] for number, message in sent.items()
        }
    moved = {number: destination.message(message) for number, message in sent.items()}
    assert {one["address"] for one in moved.values()} == {dead}
    return Course(
        deliveries,
        {number: one["message_id"] for number, one in moved.items()},
        {number: _origin(one["origin"]) for number, one in moved.items()},
    )


def _origin(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in ORIGIN}
