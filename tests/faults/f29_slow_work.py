"""F29: handlers and endpoints that take seconds, while the processes that deliver to them are killed.

Only what had begun is accused or lost (N), a handler never has more sandboxes than its concurrency (R14), and every
message is delivered in the end.
"""

import contextlib
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import psutil

from tests.faults import handler_invariants, invariants
from tests.faults.handler_run import arrivals_of
from tests.faults.kills import SANDBOX, command
from tests.faults.run import Result, asking
from tests.faults.stages import staged
from tests.whole_system.consumer import Answer, Arrival, Consumer, consuming, takes
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PoisonAdmin, until

FAMILY = "F29"
HANDLER = "moody:handle"
QUIET_SECONDS = 1800
SAMPLE_SECONDS = 0.1
_NODES = """
SELECT DISTINCT node.pid FROM message JOIN node USING (claim_id, shard)
    JOIN claim ON claim.id = claim_id JOIN address ON address.id = message.address_id
WHERE address.name = %s AND state = 'DLNG' AND node.ended_at IS NULL AND NOT claim.is_isolation
"""
_ENDS = "SELECT message_id, attempt_number FROM history WHERE event = 'outcome_lost'"


@dataclass(frozen=True)
class Work:
    """How much there is to do, each for how long, and how many processes are killed meanwhile, each after a pause."""

    messages: int
    seconds: tuple[float, float]
    concurrency: int
    kills: int
    pause: tuple[float, float]


HANDLERS = Work(messages=100, seconds=(1, 20), concurrency=6, kills=10, pause=(4, 14))
ENDPOINTS = Work(messages=30, seconds=(1, 30), concurrency=2, kills=5, pause=(0.2, 6))


def slow_handlers(system: PoisonAdmin, work: Work, dice: random.Random) -> list[str]:
    """Have a handler do slow work while processes that deliver it are killed; return what was wrong."""
    config = {"concurrency": work.concurrency, "timeout_ms": 60_000}
    destination = HandlerDestination.create(
        system, _name(), callable=HANDLER, config=config, blame="exact", max_delivery_attempts=20
    )
    with _most_sandboxes() as most:
        for place in range(work.messages):
            destination.send(f"sleep {dice.uniform(*work.seconds):.2f}", message_id=str(place))
        for _ in range(work.kills):
            time.sleep(dice.uniform(*work.pause))
            _kill(dice.sample(_delivering(system, destination.address), 1))
        destination.until_quiet(QUIET_SECONDS)
    ask, arrivals = asking(destination), arrivals_of(destination)
    delivered = len(destination.places("state = 'DLVD'"))
    return [
        *([f"{most[0]} sandboxes at once, not {work.concurrency}"] if most[0] > work.concurrency else []),
        *([] if delivered == work.messages else [f"{delivered} of {work.messages} delivered"]),
        *handler_invariants.accused(ask, (), 0),
        *handler_invariants.unexplained(ask, arrivals),
        *invariants.all_broken(system.rows),
    ]


def slow_endpoints(system: PoisonAdmin, work: Work, dice: random.Random) -> list[str]:
    """Have an endpoint answer slowly while the processes that wait for it are killed; return what was wrong.

    Of all that was claimed, exactly what the endpoint had received and not answered is lost.
    """
    with consuming(lambda _: Answer(seconds=dice.uniform(*work.seconds) + work.pause[1])) as consumer:
        config = {"concurrency": work.concurrency, "timeout_ms": 90_000}
        destination = HttpDestination.create(system, _name(), consumer, destination=config, max_delivery_attempts=20)
        place, why = f"destinations/{destination.name}", {"reason": "one claim takes them all"}
        system.post(f"{place}/disable/", why)
        ids = [destination.send() for _ in range(work.messages)]
        system.post(f"{place}/enable/", why)
        wrong: list[str] = []
        for nth in range(1, work.kills + 1):
            received = nth * work.concurrency
            until(partial(_have_come, consumer, received), 120, lambda: len(consumer.arrivals))
            time.sleep(dice.uniform(*work.pause))
            if len(consumer.arrivals) != received:
                wrong.append(f"{len(consumer.arrivals)} requests, not {received}, by the time of kill {nth}")
            _kill(_delivering(system, destination.address))
        unanswered = {(one.message_id, one.attempt) for one in consumer.arrivals}
        consumer.behaviour = takes
        for message in ids:
            destination.until(message, "DLVD", QUIET_SECONDS)
        lost = {(message, attempt) for message, attempt in asking(destination)(_ENDS)}
    return [
        *wrong,
        *invariants.told("lost, and never begun", sorted(lost - unanswered)),
        *invariants.told("begun, and not lost", sorted(unanswered - lost)),
        *invariants.told("told a wrong count", [one for one in consumer.arrivals if not _is_told(one, lost)]),
        *invariants.all_broken(system.rows),
    ]


@contextlib.contextmanager
def _most_sandboxes() -> Iterator[list[int]]:
    """Count the handler's sandboxes all the while; yield the greatest number so far."""
    most, is_over = [0], threading.Event()

    def count() -> None:
        while not is_over.wait(SAMPLE_SECONDS):
            found = psutil.Process().children(recursive=True)
            most[0] = max(most[0], sum(_is_sandbox(command(one)) for one in found))

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def _is_sandbox(words: list[str]) -> bool:
    return SANDBOX in words and HANDLER in words[-1]


def _is_told(one: Arrival, lost: Collection[tuple[int, int]]) -> bool:
    """Return whether the request says how often the message was begun before: what was only claimed does not count."""
    before = sum(message == one.message_id and attempt < one.attempt for message, attempt in lost)
    headers = one.headers["PoisonAdmin-Delivery-Count"], one.headers["PoisonAdmin-Redelivered"]
    return headers == (str(before + 1), "true" if before else "false")


def _have_come(consumer: Consumer, count: int) -> bool:
    return len(consumer.arrivals) >= count


def _delivering(system: PoisonAdmin, address: str) -> list[int]:
    """Return the processes that deliver to the address, but candidates, once there are any."""
    found: list[int] = []

    def are_there() -> bool:
        found[:] = [pid for (pid,) in system.rows(_NODES, [address])]
        return bool(found)

    until(are_there, 120, lambda: "nothing is delivered")
    return sorted(found)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            assert os.getpid() in {parent.pid for parent in process.parents()}
            process.kill()


def _name() -> str:
    return f"slow-{uuid.uuid4().hex[:8]}"


def _run(name: str, do: Callable[[PoisonAdmin, Work, random.Random], list[str]], work: Work) -> Callable[[int], Result]:
    def run(seed: int) -> Result:
        with staged("plain") as installation:
            began = time.monotonic()
            wrong = do(installation, work, random.Random(f"{FAMILY} {name} {seed}"))
            seconds = time.monotonic() - began
        moment = f"{work.messages} of {work.seconds[0]} to {work.seconds[1]} s, {work.kills} kills, in {seconds:.0f} s"
        return Result(FAMILY, name, seed, moment, work.messages, 0, 0, 0, 0, 0.0, tuple(wrong))

    return run


RUNS: dict[str, Callable[[int], Result]] = {
    f"{FAMILY} slow handlers": _run("slow handlers", slow_handlers, HANDLERS),
    f"{FAMILY} slow endpoints": _run("slow endpoints", slow_endpoints, ENDPOINTS),
}
