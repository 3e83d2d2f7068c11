"""The window of a destination: the messages that one claim may take for it, which follows what it can do.

Benchmark B12 measures it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DestinationTally:
    """The counts for one destination in one claim. `claimed` leaves out what content rules kept from it.

    `transport_failures`: of `begun`, those that ended without an HTTP status (TRANSPORT_CAUSES).
    `cause`: the most frequent transport failure, as a person would say it. `seconds`: how long its deliveries took,
    together. `slots`: deliveries at once, in the claim.
    """

    destination_id: int
    claimed: int = 0
    begun: int = 0
    delivered: int = 0
    failed: int = 0
    transport_failures: int = 0
    cause: str | None = None
    seconds: float = 0.0
    slots: int = 1


MAX_WINDOW = 8192
# How long a task may begin deliveries. What is not begun by then goes back, while others may still be under way, and is
# claimed again, by a smaller window.
START_BUDGET_SECONDS = 2.0
# How much larger the next window is where all of it was begun: 65, the first one, becomes 4160 in three claims.
GROWTH = 4

# The error classes of deliveries that ended without an HTTP status, and how a person would put each.
TRANSPORT_CAUSES = {
    "HttpConnectionRefused": "connection refused",
    "HttpConnectionReset": "connection lost before the answer",
    "HttpConnectionError": "no connection",
    "HttpDnsError": "name not resolved",
    "HttpProtocolError": "the answer was not HTTP",
    "HttpTimeout": "no answer in time",
    "HttpTlsError": "TLS failed",
    "DestinationRefused": "address not allowed",
    "InvalidDestination": "configuration not usable",
    "NotSent": "no broker that takes messages",
    "ConfirmLost": "no confirm from the broker",
}

# Fewer failures than this may be one bad connection; at a window below it the whole window is all there is to see.
MIN_EVIDENCE = 5


def next_window(window: int, tally: DestinationTally) -> tuple[int, str | None]:
    """Return the window for the next claim, and why it was cut where the destination gave no answer at all.

    Three rules, the first that applies:
    - at least min(5, window) were begun and *all* of them failed in transport: half the window, and no more than was
      begun. One delivery or one HTTP status is an answer, and this rule does not apply.
    - not everything was begun: what was begun. (Nothing begun says that time was short, not how much would have
      fitted: half.)
    - everything was begun and something was answered: four times the window, but at most 8192, and at most what the
      slots can begin in START_BUDGET_SECONDS at the pace that was shown. What is claimed beyond that would wait (R14).

    >>> next_window(256, DestinationTally(1, claimed=40, begun=40, delivered=40, seconds=0.4, slots=32))
    (1024, None)
    >>> next_window(3, DestinationTally(1, claimed=3, begun=3, delivered=3, seconds=18.0, slots=2))
    (3, None)
    >>> next_window(512, DestinationTally(1, claimed=512, begun=64, delivered=64, seconds=64.0, slots=32))
    (64, None)
    >>> next_window(8, DestinationTally(1, claimed=8, begun=8, transport_failures=8, cause="refused"))
    (4, '8 of 8 deliveries failed: refused')
    """
    if tally.begun >= min(MIN_EVIDENCE, window) and tally.begun <= tally.transport_failures and not tally.delivered:
        why = f"{tally.transport_failures} of {tally.begun} deliveries failed: {tally.cause or 'no answer'}"
        return max(1, min(window // 2, tally.begun)), why
    if tally.begun < tally.claimed:
        return max(1, min(window, tally.begun) if tally.begun else window // 2), None
    if tally.transport_failures == tally.begun:
        return window, None
    in_time = MAX_WINDOW
    if tally.seconds > 0:
        in_time = round(tally.slots * START_BUDGET_SECONDS * tally.begun / tally.seconds)
    return max(window, min(MAX_WINDOW, max(window, tally.claimed) * GROWTH, in_time)), None
