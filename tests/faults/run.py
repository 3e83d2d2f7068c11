"""One run: load, a fault in the middle of it, quiet, and then what is left of it all."""

import bisect
import itertools
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from poisonadmin.policies.domain.policy import Policy
from tests.faults import invariants
from tests.faults.load import Load, Mood, Watch
from tests.whole_system.consumer import Arrival, consuming
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import Installation, until

RATE = 60.0
QUIET_SECONDS = 240
# The rate before counts as reached again at this share of it (R in docs/operate/reliability.md).
SHARE = 0.98


@dataclass(frozen=True)
class Scene:
    """What a fault finds: everything is running, messages are on their way."""

    installation: Installation
    destination: HttpDestination | HandlerDestination
    load: Load
    dice: random.Random


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong. `strike` returns once nothing is wrong any more but for what has to heal by itself.

    It returns what it did, for the table; what it asserts is one of the invariants. `back_seconds`: how soon the rate
    must be back after that. `stage`: the kind of installation it needs (tests/faults/stages.py). `to_handlers`:
    messages go to a handler (tests/faults/handler_run.py); `kills_sandboxes`: how many of its sandboxes it kills, at
    most, while the process that started them lives on; None: nobody knows.
    """

    family: str
    name: str
    strike: Callable[[Scene], str]
    back_seconds: float
    web_may_be_away: bool = False
    stage: str = "plain"
    to_handlers: bool = False
    kills_sandboxes: int | None = 0


@dataclass(frozen=True)
class Plan:
    """What a seed decides: the same seed, the same plan."""

    strike_after: int
    messages_after: int
    mood: Mood

    @classmethod
    def of(cls, fault: Fault, seed: int) -> "Plan":
        """Return the plan of a seed."""
        dice = random.Random(f"{fault.family} {fault.name} {seed}")
        mood = Mood(seed, slow_percent=dice.choice([0, 10, 30]), failing_percent=dice.choice([0, 5, 20]))
        return cls(dice.randint(60, 180), dice.randrange(180, 300, 10), mood)


@dataclass(frozen=True)
class Result:
    """A line of the table. `wrong` is empty when every invariant holds."""

    family: str
    fault: str
    seed: int
    moment: str
    messages: int
    duplicates: int
    lost: int
    stuck: int
    accused: int
    back_seconds: float
    wrong: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Return the verdict in a word."""
        return "broken" if self.wrong else "held"


# What the destinations of the runs have in force: PROMPT with these settings.
POLICY = Policy(
    redelivery_delay=200,
    redelivery_delay_multiplier=2.0,
    redelivery_collision_avoidance_factor=0.0,
    max_redelivery_delay=2000,
)
SETTINGS = {"max_delivery_attempts": 10, "redelivery_delay_multiplier": 2, "max_redelivery_delay": 2000}


def run(installation: Installation, fault: Fault, seed: int) -> Result:
    """Carry out the seed's plan of the fault and return what came of it."""
    plan = Plan.of(fault, seed)
    name = f"{fault.family.lower()}-{seed}-{time.monotonic_ns() // 1_000_000 % 1_000_000_000}"
    with consuming(plan.mood.behaviour()) as consumer:
        destination = HttpDestination.create(installation, name, consumer, **SETTINGS)
        with Watch(installation) as watch, Load(destination, RATE) as load:
            until(lambda: len(consumer.arrivals) >= plan.strike_after, 120, lambda: load.error or "no arrivals")
            struck_at = time.time()
            dice = random.Random(f"strike {fault.name} {seed}")
            moment, missed = struck(fault, Scene(installation, destination, load, dice))
            over_at = time.time()
            load.stop_after(plan.messages_after)
        is_quiet = _quiet(destination, load)
        until(installation.is_ready, QUIET_SECONDS, lambda: "the web process is not ready again")
        arrivals = list(consumer.arrivals)
        result = _judged(
            fault, seed, plan, destination, load, watch, arrivals, (struck_at, over_at, moment), is_quiet, missed
        )
        # What is left over where something was wrong must not keep the next run busy.
        installation.post(f"destinations/{name}/disable/", {"reason": "the run is over"})
    return result


def struck(fault: Fault, scene: Scene) -> tuple[str, list[str]]:
    """Strike; return what was done, and which of the strike's own assertions failed."""
    try:
        return fault.strike(scene), []
    except AssertionError as error:
        return "see below", [str(error)]


def _quiet(destination: HttpDestination, load: Load) -> bool:
    """Wait until every message of the run is where it belongs; return whether that came true in time."""
    left = "SELECT count(*) FROM message JOIN address ON address.id = address_id WHERE name = %s AND state <> 'DLVD'"
    here = "SELECT count(*) FROM message JOIN address ON address.id = address_id WHERE name = %s"
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        try:
            if destination.installation.rows(left, [destination.address]) == [(0,)] and destination.installation.rows(
                here, [destination.address]
            )[0][0] >= len(load.accepted):
                return True
        except psycopg.OperationalError:
            pass
        time.sleep(0.2)
    return False


def _judged(
    fault: Fault,
    seed: int,
    plan: Plan,
    destination: HttpDestination,
    load: Load,
    watch: Watch,
    arrivals: list[Arrival],
    strike: tuple[float, float, str],
    is_quiet: bool,
    missed: list[str],
) -> Result:
    ask = asking(destination)
    struck_at, over_at, moment = strike
    back = seconds_until_back(arrivals, struck_at, over_at)
    load_now = os.getloadavg()[0]
    # The times are promised for a machine that is not otherwise busy; one that is has to share its cores.
    limit = fault.back_seconds * max(1.0, load_now / (os.cpu_count() or 1))
    lost = invariants.lost(ask, load.accepted, arrivals)
    accused = [*invariants.accused(ask), *_falsely_failed(ask, arrivals)]
    stuck = invariants.stuck(destination.installation.rows)
    taken_twice = invariants.duplicates(arrivals)
    wrong = [
        *missed,
        *([load.error] if load.error else []),
        *([] if is_quiet else [f"not quiet within {QUIET_SECONDS} s: {invariants.states(ask)}"]),
        *lost,
        *invariants.untraceable(destination.installation.rows, arrivals),
        *accused,
        *invariants.all_broken(destination.installation.rows),
        *invariants.early(ask, lambda _: POLICY, arrivals),
        *watch.speechless(may_be_away=fault.web_may_be_away),
        *([f"back after {back:.1f} s, not {limit:.0f} s (load {load_now:.0f})"] if back > limit else []),
    ]
    return Result(
        family=fault.family,
        fault=fault.name,
        seed=seed,
        moment=f"load {load_now:.0f}, after {plan.strike_after} messages: {moment}",
        messages=len(load.accepted),
        duplicates=len(taken_twice),
        lost=len(lost),
        stuck=len(stuck),
        accused=len(accused),
        back_seconds=back,
        wrong=tuple(wrong),
    )


def seconds_until_back(arrivals: list[Arrival], struck_at: float, over_at: float) -> float:
    """R: return the seconds from the end of the fault until messages come as they came before it.

    That is the end of the last silence that is longer than any before the fault (and than a second), or the first
    second with as many messages as before, whichever is later. When fewer are left than that, their end counts.
    """
    times = sorted(one.at for one in arrivals)
    before, after = times[: bisect.bisect(times, struck_at)], times[bisect.bisect(times, over_at) :]
    if not after:
        return 0.0
    usual = 2 * max((later - earlier for earlier, later in itertools.pairwise(before)), default=0.0)
    silences = [
        later - over_at for earlier, later in itertools.pairwise([over_at, *after]) if later - earlier > max(1.0, usual)
    ]
    rate = (len(before) - bisect.bisect(before, struck_at - 2)) / 2
    wanted = max(1, min(int(rate * SHARE), len(after)))
    full = (first - over_at for first, last in zip(after, after[wanted - 1 :], strict=False) if last - first <= 1.0)
    return max([*silences[-1:], next(full, after[-1] - over_at)])


def asking(destination: HttpDestination | HandlerDestination) -> invariants.Ask:
    """Return a way to ask about this run's messages only, whatever else the database holds."""
    scope = (
        "WITH mine AS MATERIALIZED (SELECT envelope.id AS mine_id FROM public.envelope JOIN public.address"
        f" ON address.id = intake_address_id WHERE name = '{destination.address}'),"
        " message AS (SELECT message.* FROM public.message JOIN mine ON mine_id = message.id),"
        " history AS (SELECT history.* FROM public.history JOIN mine ON mine_id = message_id) "
    )
    return lambda query: destination.installation.rows(scope + query)


def _falsely_failed(ask: invariants.Ask, arrivals: list[Arrival]) -> list[str]:
    """N: return messages with more failures on record than their consumer has given them."""
    refused: dict[int, int] = {}
    for one in arrivals:
        refused[one.message_id] = refused.get(one.message_id, 0) + (not one.is_taken)
    counted = ask("SELECT message_id, count(*) FROM history WHERE event = 'failed' GROUP BY 1")
    return [
        f"message {message_id} has {n} failures on record, its consumer failed it {refused.get(message_id, 0)} times"
        for message_id, n in counted
        if n > refused.get(message_id, 0)
    ]
