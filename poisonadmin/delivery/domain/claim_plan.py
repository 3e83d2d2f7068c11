"""The plan of a claim: how many messages of which destinations it takes, on how many tasks, and in which slots.

Each destination has its own allowance, so that one that hangs never takes the room of another. Slots are the moments
at which the deliveries of something with a rate begin, reserved a claim at a time: those of two claims never overlap,
and no delivery begins outside of those of its claim, so that no second sees more than the rate and one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# How far ahead a claim reserves slots; shorter than the time in which a task may begin deliveries.
HORIZON_SECONDS = 1.0
# Slots begin so long after their claim: a task has to take it up first, and what it missed would be lost to the rate.
LEAD_SECONDS = 0.25
# A claim of a few messages has so long to begin them.
LEAST_SPAN_SECONDS = 0.25
# Each second is so much longer than its slots: what the timers and the way to the consumer may add to a slot.
SLACK_SECONDS = 0.03
# The part of it that timers may use.
LATE_SECONDS = 0.02


def slot_distance(rate: float) -> float:
    """Return how far two slots are apart, in seconds; `rate`: deliveries a second."""
    return (1 + SLACK_SECONDS) / rate


def slots_ahead(rate: float, reserved_seconds: float) -> int:
    """Return how many slots a claim may reserve: those left within the horizon, or the next one where that is later.

    0 while more than half of the horizon is reserved: so each claim is made well before its slots come, and few
    claims of many messages are made instead of many of few.
    """
    if reserved_seconds > HORIZON_SECONDS / 2:
        return 0
    return max(int((HORIZON_SECONDS - reserved_seconds) * rate), 1)


def end_of_slots(first: float, last: float, rate: float) -> float:
    """Return when the slots of a claim end and those of the next may begin; Unix seconds."""
    return max(last + slot_distance(rate), first + LEAST_SPAN_SECONDS)


# Below this many messages a second task costs more than it gains.
MESSAGES_WORTH_A_TASK = 400
CLAIMS_AT_ONCE = 2
# The busiest lane of a destination may have this share of its allowance while other lanes wait too.
_FAIR_LANES = 4
# Operations may have this share of it in one claim: what comes in meanwhile waits until one has been begun.
_BULK_SHARE = 4
# So few nobody has to wait for.
_LEAST_BULK = 16


@dataclass(frozen=True)
class Capacity:
    """A destination before a claim. `window`: messages that may be on their way; `slots_ahead` None: no rate limit.

    `in_use`: how many of its `concurrency` claims hold; `beginning`: how many claims have more to begin than that.
    `is_turn_of_candidates`: one is due, and has been for longer than any other message but those of operations. So
    neither has the other wait for ever: what comes in later waits behind a candidate, and a candidate that is due again
    waits behind what came in meanwhile.
    """

    destination_id: int
    concurrency: int
    window: int
    in_use: int
    slots_ahead: int | None = None  # messages that the rate lets start within the claim's horizon
    isolated: int = 0  # candidates under way, not in `in_use`
    beginning: int = 0
    is_turn_of_candidates: bool = False


@dataclass(frozen=True)
class Allowance:
    """The messages that a claim may take for one destination. `at_once`: deliveries at once, in all of its shards.

    `overlapped`: the same where more is left behind than the claim takes, and the next claim is to begin beside it.
    """

    destination_id: int
    take: int
    at_once: int
    shards: tuple[int, ...]
    overlapped: int


@dataclass(frozen=True)
class LaneCap:
    """The number of messages that a claim may take from one lane."""

    lane_id: int
    destination_id: int
    cap: int


def allowances(capacities: Iterable[Capacity], *, tasks: int, limit: int) -> tuple[Allowance, ...]:
    """Return what each destination with room may take; one without room is left out.

    Claims share a destination's concurrency and its window: one that has stopped answering has no more under way, in
    however many claims, than its window says. Two of them may have something to begin at a time, so that one delivers
    while the other is being claimed; of a destination that has not shown that it is fast the first has every slot, and
    nothing waits but the next message (R14). What has a rate limit goes to one shard, which spaces it. A destination
    gets nothing else while its candidates are tried or have their turn (R14): a crash must accuse nothing else.
    """
    given = []
    for index, capacity in enumerate(capacities):
        free = capacity.concurrency - capacity.in_use
        take = min(capacity.window - capacity.in_use, limit)
        if capacity.slots_ahead is not None:
            take = min(take, capacity.slots_ahead)
        if free < 1 or take < 1 or capacity.beginning >= CLAIMS_AT_ONCE:
            continue
        if capacity.isolated or capacity.is_turn_of_candidates:
            continue
        if capacity.slots_ahead is None and not capacity.beginning:
            # Smaller than the second, so that they do not end together.
            take = max(take // CLAIMS_AT_ONCE, min(take, MESSAGES_WORTH_A_TASK))
        wanted = 1 if capacity.slots_ahead is not None else min(tasks, free, -(-take // MESSAGES_WORTH_A_TASK))
        shards = tuple((index + offset) % tasks for offset in range(wanted))
        is_shown_fast = capacity.window > capacity.concurrency + 1
        overlapped = min(free, -(-capacity.concurrency // CLAIMS_AT_ONCE)) if is_shown_fast else free
        given.append(Allowance(capacity.destination_id, take, free, shards, overlapped))
    return tuple(given)


def isolated_allowances(capacities: Iterable[Capacity], *, limit: int) -> tuple[Allowance, ...]:
    """Return what each destination's next claim of candidates may take: one at once, in one shard.

    A destination gets them when everything that it was sent is answered, other candidates too.
    """
    return tuple(
        Allowance(capacity.destination_id, min(limit, capacity.slots_ahead or limit), 1, (0,), 1)
        for capacity in capacities
        if capacity.is_turn_of_candidates and not (capacity.isolated or capacity.in_use) and capacity.slots_ahead != 0
    )


def lane_caps(
    lanes: Sequence[tuple[int, int]], given: Iterable[Allowance], runs: Mapping[int, Sequence[int]]
) -> tuple[LaneCap, ...]:
    """Return how much to take from each due lane, given as (lane id, destination id), the longest due first.

    A lane alone may have all of its destination's allowance; beside others it gets at most a quarter, or its even share
    where that is more, so that a backlog on one address does not hide the rest. Of an ordered lane `runs` names what
    may be taken; those lanes come first and fit into the allowance together, so that no run is cut but at its end.
    """
    takes: dict[int, int] = {allowance.destination_id: allowance.take for allowance in given}
    counts = Counter(destination_id for _, destination_id in lanes)
    known = [lane for lane in lanes if lane[1] in takes]
    fair = {to: -(-takes[to] // min(counts[to], _FAIR_LANES)) for _, to in known}
    ordered = []
    for lane_id, destination_id in known:
        if lane_id in runs:
            cap = min(fair[destination_id], takes[destination_id], len(runs[lane_id]))
            takes[destination_id] -= cap
            ordered.append(LaneCap(lane_id, destination_id, cap))
    plain = [LaneCap(lane_id, to, fair[to]) for lane_id, to in known if lane_id not in runs]
    return tuple(cap for cap in (*ordered, *plain) if cap.cap)


class OperationLane(Protocol):
    """A lane of an operation with something due. `slots`: how many messages the operation may have begun within the
    horizon, None where it has no rate."""

    @property
    def id(self) -> int: ...

    @property
    def destination_id(self) -> int: ...

    @property
    def operation_id(self) -> int: ...

    @property
    def slots(self) -> int | None: ...


def run_lengths(lanes: Collection[OperationLane], given: Iterable[Allowance], *, longest: int) -> dict[int, int]:
    """Return how many messages of each due lane's conversation are worth a look: lane id -> at most `longest`.

    Twice its even share of what may be taken: what one conversation does not have, others give.
    """
    takes = {allowance.destination_id: allowance.take for allowance in given}
    kinds = {lane.id: (lane.destination_id, 0 if lane.slots is None else lane.operation_id) for lane in lanes}
    counts = Counter(kinds.values())
    shares = {lane.id: takes[lane.destination_id] if lane.slots is None else lane.slots for lane in lanes}
    return {lane: min(longest, 2 * -(-share // counts[kinds[lane]])) for lane, share in shares.items()}


def operation_caps(
    lanes: Iterable[OperationLane],
    given: Collection[Allowance],
    runs: Mapping[int, Sequence[int]],
    *,
    before: Collection[LaneCap] = (),
    rated: Collection[int] = (),
) -> tuple[LaneCap, ...]:
    """Return how much to take from the due lanes of operations: what the other lanes of a destination leave, and in all
    no more than a quarter of what it may be given, or than an operation with a rate has slots.

    `before`: what is taken from the other lanes; of ordered lanes, `runs` as there, everything fits into the allowance
    together. An operation with a rate gets slots of one destination at a time. A destination with a rate of its own,
    one of `rated`, gives its slots to one such operation at a time, or to all that has no rate: slots that are counted
    from the same moment twice would let twice as many begin.
    """
    takes = {one.destination_id: one.take for one in given}
    for cap in before:
        takes[cap.destination_id] -= cap.cap if cap.lane_id in runs else 0
    least = {one.destination_id: min(one.take, max(one.at_once, _LEAST_BULK)) for one in given}
    shares = {(one.destination_id, 0): max(one.take // _BULK_SHARE, least[one.destination_id]) for one in given}
    place_of: dict[int, int] = {}
    pace_at = {cap.destination_id: 0 for cap in before if cap.destination_id in rated}
    chosen = []
    for lane in lanes:
        to, pace = lane.destination_id, 0 if lane.slots is None else lane.operation_id
        if to not in takes or pace_at.get(to, pace) != pace or place_of.get(pace, to) != to:
            continue
        if to in rated:
            pace_at[to] = pace
        if lane.slots is not None:
            place_of[pace] = to
            shares[to, pace] = lane.slots
        chosen.append((lane.id, (to, pace)))
    waiting = Counter(kind for _, kind in chosen)
    caps = []
    for lane_id, kind in chosen:
        take = min(takes[kind[0]], -(-shares[kind] // waiting[kind]))
        if lane_id in runs:
            take = min(take, len(runs[lane_id]))
            takes[kind[0]] -= take
        shares[kind] -= take
        waiting[kind] -= 1
        caps.append(LaneCap(lane_id, kind[0], take))
    return tuple(one for one in caps if one.cap)
