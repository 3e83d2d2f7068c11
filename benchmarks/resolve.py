"""RESOLVE: the policies in force on 100,000 addresses against 500 patterns, as the claim path resolves them."""

import random
import time

from benchmarks.results import Line, at_most, say
from benchmarks.world import World
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec

NAME = "RESOLVE"
ADDRESSES = 100_000
PATTERNS = 500
SLICE = 10_000
WORDS = [f"w{n}" for n in range(40)]
LIMIT = "one walk of the tree of patterns an address; merged settings are kept a set of patterns"


def run(world: World) -> list[Line]:
    """Measure, slice by slice: the slowest counts."""
    dice = random.Random(4)
    count = world.count(ADDRESSES, least=SLICE)
    specs = _specs(dice)
    began = time.perf_counter()
    book = PolicyIndex(specs)
    compiled = time.perf_counter() - began
    addresses = [".".join(dice.choices(WORDS, k=dice.randint(1, 6))) for _ in range(count)]
    seconds = []
    for start in range(0, count, SLICE):
        began = time.perf_counter()
        for address in addresses[start : start + SLICE]:
            book.resolve(address)
        seconds.append(time.perf_counter() - began)
    say(f"    {count:,} addresses in {sum(seconds):.2f} s, {PATTERNS} patterns compiled in {compiled * 1000:.0f} ms")
    work = f"seconds for {SLICE:,} of {count:,} addresses against {PATTERNS} patterns, the slowest slice"
    note = f"all in {sum(seconds):.2f} s; compiled in {compiled * 1000:.0f} ms"
    return [at_most(NAME, work, max(seconds), aim=1.0, unit="s", note=note, limit=LIMIT)]


def _specs(dice: random.Random) -> list[PolicySpec]:
    """Return policies with patterns of every shape, a third with a preset, each with settings of its own."""
    patterns: set[str] = {"#"}
    while len(patterns) < PATTERNS:
        words = [dice.choice([*WORDS, "*", "*", "#"]) for _ in range(dice.randint(1, 5))]
        patterns.add(".".join(words))
    return [
        PolicySpec(
            pattern,
            preset=dice.choice(["sap", "artemis", "websphere", None, None, None]),
            settings={"redelivery_delay": dice.randrange(10_000), "crash_limit": dice.randint(1, 9)},
        )
        for pattern in sorted(patterns)
    ]
