"""The way of a message from one dead-letter address to the next, and whether it leads back (R15)."""

from collections.abc import Iterator

from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.resolution import PolicyIndex
from poisonadmin.policies.domain.retry_decision import PlainTry, on_failure
from poisonadmin.policies.domain.retry_limits import attempts_in_all


def exhausted_goes_to(policy: Policy, address: str) -> str | None:
    """Return the address to which a message moves that is exhausted on `address`; None: it stays, or is never.

    >>> exhausted_goes_to(Policy(max_delivery_attempts=3, dead_letter_address="dead"), "orders")
    'dead'
    """
    attempts = attempts_in_all(policy, address)
    if attempts is None:
        return None
    return on_failure(policy, PlainTry(attempt_number=attempts, failure_count=attempts - 1, address=address)).move_to


def dead_letter_way(policies: PolicyIndex, start: str) -> Iterator[str]:
    """Yield the addresses to which a message moves that fails wherever it is delivered, the first behind `start`.

    The way ends where nothing is delivered, or with the first address, or pattern `start`, that it comes to again.
    """
    seen = {start}
    target = exhausted_goes_to(policies.resolve_pattern(start).policy, start)
    while target is not None:
        yield target
        in_force = policies.resolve(target)
        if target in seen or in_force.destination is None:
            return
        seen.add(target)
        target = exhausted_goes_to(in_force.policy, target)


def goes_round(policies: PolicyIndex, start: str) -> str | None:
    """Return the address to which dead letters of the address or pattern `start` go first, where they come back."""
    way = list(dead_letter_way(policies, start))
    return way[0] if way and way[-1] in {start, *way[:-1]} else None
