"""The window of a destination: the messages that one claim may take for it, which follows what it can do.

Benchmark B12 measures it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DestinationTally:
    """The counts for one destination. `claimed` leaves out what content rules kept from it.

    `cause`: the most frequent transport failure, as a person would say it. `seconds`: how long its deliveries took,
    together. `slots`: deliveries at once, in the claim.
    """

    destination_id: int
    claimed: int
    begun: int
    delivered: int
    failed: int
    transport_failures: int
    cause: str | None
    seconds: float
    slots: int = 1


MAX_WINDOW = 8192
# How long a task may begin deliveries. What is not begun by then goes back, while others may still be under way, and is
# claimed again, by a smaller window.
START_BUDGET_SECONDS = 2.0

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


def next_window(
    window: int,
    *,
    claimed: int,
    begun: int,
    transport_failures: int,
    delivered: int,
    cause: str = "no answer",
    seconds: float,
    slots: int,
) -> tuple[int, str | None]:
    """Return the window for the next claim, and why it was cut where the destination gave no answer at all.

    Units: all counts are messages of this destination in one claim; `transport_failures` of the `begun` ended without
    an HTTP status (TRANSPORT_CAUSES); `cause` is the most frequent of their reasons. The deliveries took `seconds`
    together, and as many as `slots` were under way at once.
    Three rules, the first that applies:
    - at least min(5, window) were begun and *all* of them failed in transport: half the window, and no more than was
      begun. One delivery or one HTTP status is an answer, and this rule does not apply.
    - not everything was begun: what was begun. (Nothing begun says that time was short, not how much would have
      fitted: half.)
    - everything was begun and something was answered: twice the window, but at most 8192, and at most what the slots
      can begin in START_BUDGET_SECONDS at the pace that was shown. What is claimed beyond that would wait (R14).

    >>> next_window(256, claimed=40, begun=40, transport_failures=3, delivered=37, seconds=0.4, slots=32)
    (512, None)
    >>> next_window(33, claimed=33, begun=33, transport_failures=0, delivered=33, seconds=198.0, slots=32)
    (33, None)
    >>> next_window(512, claimed=512, begun=64, transport_failures=0, delivered=64, seconds=64.0, slots=32)
    (64, None)
    >>> next_window(8, claimed=8, begun=8, transport_failures=8, delivered=0, cause="refused", seconds=0.1, slots=8)
    (4, '8 of 8 deliveries failed: refused')
    """
    if _is_silent(window, begun=begun, transport_failures=transport_failures, delivered=delivered):
        why = f"{transport_failures} of {begun} deliveries failed: {cause}"
        return max(1, min(window // 2, begun)), why
    if begun < claimed:
        return max(1, min(window, begun) if begun else window // 2), None
    if transport_failures == begun:
        return window, None
    in_time = MAX_WINDOW if seconds <= 0 else round(slots * START_BUDGET_SECONDS * begun / seconds)
    return max(window, min(MAX_WINDOW, max(window, claimed) * 2, in_time)), None


def _is_silent(window: int, *, begun: int, transport_failures: int, delivered: int) -> bool:
    return begun >= min(MIN_EVIDENCE, window) and transport_failures >= begun and delivered == 0
