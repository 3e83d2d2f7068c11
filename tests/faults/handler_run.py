"""One run with a handler under load: as `run`, but what the consumer saw are the notes that the handler made."""

import os
import random
import time
from collections.abc import Collection

import psycopg

from tests.faults import handler_invariants, invariants
from tests.faults.load import Load, Watch
from tests.faults.run import QUIET_SECONDS, RATE, Fault, Result, Scene, asking, seconds_until_back, struck
from tests.whole_system.consumer import Arrival
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.installation import Installation, until

CONCURRENCY = 4
SETTINGS = {"max_delivery_attempts": 20, "redelivery_delay": 100, "max_redelivery_delay": 100}
# Of a hundred messages so many kill their process, refuse at first, or are slow.
KILLING, REFUSING, SLOW = 1.5, 5, 8
KILLERS = ("kill SIGKILL", "segfault", "abort", "_exit 3", "exit 4")


def run_handlers(installation: Installation, fault: Fault, seed: int) -> Result:
    """Carry out the seed's plan of the fault, messages going to a handler, and return what came of it."""
    dice = random.Random(f"handlers {fault.family} {fault.name} {fault.stage} {seed}")
    strike_after, messages_after = dice.randint(40, 120), dice.randrange(120, 240, 10)
    name = f"h-{fault.family.lower()}-{seed}-{time.monotonic_ns() // 1_000_000 % 1_000_000_000}"
    destination = HandlerDestination.create(
        installation, name, callable="moody:handle", config={"concurrency": CONCURRENCY}, **SETTINGS
    )
    guilty: set[str] = set()

    def fields(one: str) -> dict[str, object]:
        deed = deed_of(f"{seed} {one.rpartition('-')[2]}")
        if deed in KILLERS:
            guilty.add(one)
        return {"payload": deed, "headers": {"notes": str(destination.notes)}}

    with Watch(installation) as watch, Load(destination, RATE, fields) as load:
        until(
            lambda: len(arrivals_of(destination)) >= strike_after,
            120,
            lambda: load.error or installation.output[-2000:],
        )
        struck_at = time.time()
        moment, missed = struck(fault, Scene(installation, destination, load, dice))
        over_at = time.time()
        load.stop_after(messages_after)
    is_quiet = _quiet(destination, load, guilty)
    until(installation.is_ready, QUIET_SECONDS, lambda: "the web process is not ready again")
    arrivals = arrivals_of(destination)
    ask = asking(destination)
    back = seconds_until_back(arrivals, struck_at, over_at)
    load_now = os.getloadavg()[0]
    limit = fault.back_seconds * max(1.0, load_now / (os.cpu_count() or 1))
    lost = invariants.lost(ask, load.accepted, arrivals)
    accused = handler_invariants.accused(ask, guilty, fault.kills_sandboxes)
    stuck = invariants.stuck(installation.rows)
    wrong = [
        *missed,
        *([load.error] if load.error else []),
        *([] if is_quiet else [f"not quiet within {QUIET_SECONDS} s: {invariants.states(ask)}"]),
        *lost,
        *accused,
        *handler_invariants.spared(ask, guilty),
        *handler_invariants.unexplained(ask, arrivals),
        *handler_invariants.past_the_lease(ask, arrivals),
        *invariants.all_broken(installation.rows),
        *watch.speechless(may_be_away=fault.web_may_be_away),
        *([f"back after {back:.1f} s, not {limit:.0f} s (load {load_now:.0f})"] if back > limit else []),
    ]
    installation.post(f"destinations/{name}/disable/", {"reason": "the run is over"})
    return Result(
        family=fault.family,
        fault=fault.name,
        seed=seed,
        moment=f"{fault.stage}, load {load_now:.0f}, {len(guilty)} killers: {moment}",
        messages=len(load.accepted),
        duplicates=handler_invariants.repeated(ask, arrivals),
        lost=len(lost),
        stuck=len(stuck),
        accused=len(accused),
        back_seconds=back,
        wrong=tuple(wrong),
    )


def deed_of(key: str) -> str:
    """Return what the handler does with the message; the same for the same key."""
    dice = random.Random(key)
    place = dice.uniform(0, 100)
    if place < KILLING:
        return dice.choice(KILLERS)
    if place < KILLING + REFUSING:
        return "refuse at first"
    return f"sleep {dice.uniform(0.05, 0.4):.2f}" if place < KILLING + REFUSING + SLOW else "ok"


def arrivals_of(destination: HandlerDestination) -> list[Arrival]:
    """Return what the handler has noted: each time that it began a message."""
    lines = destination.notes.read_text().splitlines() if destination.notes.exists() else []
    noted = (line.split() for line in lines)
    return [Arrival(int(one), int(attempt), destination.address, float(at), 200, b"", "") for one, attempt, at in noted]


def _quiet(destination: HandlerDestination, load: Load, guilty: Collection[str]) -> bool:
    """Wait until every message is delivered, and every guilty one stopped; return whether that came true in time."""
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        try:
            counts = invariants.states(asking(destination))
        except psycopg.OperationalError:
            counts = {}
        if counts.get("TBDL", 0) + counts.get("DLNG", 0) == 0 and sum(counts.values()) >= len(load.accepted):
            return True
        time.sleep(0.2)
    return False
