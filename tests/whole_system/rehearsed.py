"""What a load and its consumer saw of a rehearsal, in figures."""

from collections import Counter, defaultdict
from itertools import pairwise

from tests.faults.load import Load
from tests.whole_system.consumer import Consumer


def figures(load: Load, consumer: Consumer) -> dict[str, float]:
    """Return the figures of a load that has ended, all of it delivered but for what was lost."""
    arrivals = Counter(one.producer_id for one in list(consumer.arrivals))
    times = sorted(one.at for one in list(consumer.arrivals))
    return {
        "messages accepted": len(load.accepted),
        "lost": len(load.accepted.keys() - arrivals.keys()),
        "delivered more than once": sum(n > 1 for n in arrivals.values()),
        "requests that failed": sum(one.status != 202 for one in load.answers),
        "longest time without a delivery, s": round(max(later - sooner for sooner, later in pairwise(times)), 1),
        "slowest request, s": round(max(one.seconds for one in load.answers), 2),
    }


def ids_of_two(consumer: Consumer) -> int:
    """Return how many of PoisonAdmin's ids have come with two messages: a database that is behind gives them again."""
    messages: defaultdict[int, set[str]] = defaultdict(set)
    for one in list(consumer.arrivals):
        messages[one.message_id].add(one.producer_id)
    return sum(len(some) > 1 for some in messages.values())
