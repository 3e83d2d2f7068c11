"""What an operation owes each of its members, and whoever stands by: the model that scenes are compared with."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poisonadmin.messages.queries.counts import wrong_counters
from tests.faults import invariants
from tests.messages.overlap import rows
from tests.pairs.worker import Beginning


@dataclass(frozen=True)
class Found:
    """A message, as the database has it."""

    state: str
    reason: str | None
    address: str
    original_address_id: int | None
    candidate: bool
    crash_count: int
    payload: str
    is_listed: bool
    has_ended: bool


@dataclass(frozen=True)
class Expected:
    """An operation that is over, and what the model needs to know of it. `accepted`: what its preview accepted."""

    before: Mapping[int, Found]
    after: Mapping[int, Found]
    operation: Any
    skipped: set[int]
    accepted: int | None
    begun: Sequence[Beginning]
    outcomes: Mapping[int, str]
    rate_per_second: float | None
    is_patch: bool
    bystanders: Mapping[int, Found]


def check(one: Expected) -> None:
    """Compare; the message of the error names the promise that is broken."""
    ledger = one.operation.ledger
    assert ledger.total == one.operation.count, "the ledger does not sum to its members"
    begun = {each.message for each in one.begun}
    never = set(one.before) - begun - one.skipped
    assert begun.isdisjoint(one.skipped), "it delivered what it says it has skipped"
    if one.accepted is not None:
        assert len(one.before) - len(one.skipped) == one.accepted, "the preview foresaw something else"
    _check_never(one, never)
    for message in begun:
        _check_begun(one, message)
    found = Counter(one.outcomes[message] for message in begun)
    lines = {
        "delivered": ledger.delivered,
        "failed": ledger.failed_same + ledger.failed_new,
        "crashed": ledger.blacklisted,
        "never": ledger.cancelled,
        "skipped": ledger.skipped,
    }
    expected = {**dict.fromkeys(lines, 0), **found, "never": len(never), "skipped": len(one.skipped)}
    if one.operation.state == "cancelled" and lines != expected:
        # What crashed once, and was taken back before it could be tried alone, may be either.
        lines["crashed"] += (back := found["crashed"] - lines["crashed"])
        lines["never"] -= back
    assert lines == expected, "the ledger's lines are not what became of the members"
    _check_rate(one)
    for message, bystander in one.bystanders.items():
        assert (bystander.state, bystander.candidate, bystander.crash_count) == ("DLVD", False, 0), message
    for holds in (invariants.broken_chains, invariants.wrong_counters, invariants.stuck):
        assert holds(rows) == []
    assert wrong_counters() == []


def _check_never(one: Expected, never: set[int]) -> None:
    assert not never or one.operation.state == "cancelled", f"{sorted(never)} never began, and it says it is completed"
    for message in never | one.skipped:
        before, after = one.before[message], one.after[message]
        if message in one.skipped:  # who has others of its conversation delivered has opened it again
            before = replace(before, has_ended=after.has_ended)
        assert after == before, f"{message} never began, and is not as it was"


def _check_begun(one: Expected, message: int) -> None:
    after, outcome = one.after[message], one.outcomes[message]
    state = "DLVD" if outcome == "delivered" else "NDLV"
    assert after.state == state, f"{message}: {outcome}, and {after}"
    if one.is_patch and outcome == "delivered":
        assert after.payload != one.before[message].payload, f"{message} was delivered without the change"
    times = [each.message for each in one.begun].count(message)
    assert times == 1 or outcome != "delivered", f"{message} was delivered {times} times"


def _check_rate(one: Expected) -> None:
    if one.rate_per_second is None:
        return
    times = sorted(each.at for each in one.begun)
    for start in times:
        count = sum(start <= at < start + 1 for at in times)
        assert count <= one.rate_per_second + 1, f"{count} began in a second at {one.rate_per_second:g}/s"
