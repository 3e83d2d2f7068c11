"""Previews an operation on a selection, with the checks that carrying it out makes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.core.queries.scope import destinations_seen, visible_ids
from poisonadmin.core.queries.sql import Sql, name, named_sql, raw
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.pace import UNLIMITED, Deliveries, Duration, Pace, duration
from poisonadmin.decisions.operations.domain.params import checked_params
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.operations.queries.change_preview import ChangePreview, NotChangedCount, preview_change
from poisonadmin.decisions.queries import refusals
from poisonadmin.decisions.queries.approval_warnings import ApprovalWarning, approval_warning
from poisonadmin.decisions.sign_offs.domain import SignOffNeeded
from poisonadmin.decisions.sign_offs.queries import limits_of, sign_off_needed
from poisonadmin.policies.queries import policy_index
from poisonadmin.rules.queries import names_before
from poisonadmin.search.queries.selections import SelectionRow
from poisonadmin.store.models.lane import AddressStatus

# Of a million members.
PREVIEW_SECONDS = 150
# It waits or is under way for another operation.
TAKEN = "taken"
# The OFFSET keeps the refusal out of the GROUP BY, where the planner would not hash what is overtaken.
_SORTS = partial(
    named_sql,
    """
SELECT why, CASE WHEN why IN ('TBDL', 'DLNG') THEN operation_id END, address, back, destination_id, is_enabled, status,
       crash_count, has_crashed, count(*)
FROM (
    SELECT CASE WHEN message.id IN ({held}) THEN '{held_by_predecessor}' ELSE {refusal} END AS why,
           message.operation_id, address.name AS address, back.name AS back, destination.id AS destination_id,
           destination.is_enabled, {place}.status,
           message.candidate OR message.crash_count > 0 AS has_crashed,
           CASE WHEN message.candidate OR message.crash_count > 0 THEN message.crash_count ELSE 0 END AS crash_count
    FROM {members} JOIN message ON message.id = member.id {joins}
         LEFT JOIN destination ON destination.id = {place}.destination_id
    OFFSET 0
) AS looked_at
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
""",
)
# A message that is made due now is delivered where it is, the others where they go back to, or are sent.
_DELIVERED = DELIVERING | {OperationAction.DELIVER_NOW}


class WaitsFor(StrEnum):
    """Why what an operation makes due is not delivered before somebody mends that."""

    DESTINATION_DISABLED = "destination_disabled"
    ADDRESS_PAUSED = "address_paused"
    ADDRESS_STOPPED = "address_stopped"


@dataclass(frozen=True)
class LeftAlone:
    """A count of messages of an address that will be skipped; `code`: a refusal's code, or the state that they are in.

    `detail`: the address that does not take them, or the operation that has them.
    """

    code: str
    address: str
    count: int
    detail: str | None


@dataclass(frozen=True)
class Target:
    """A count of messages that will go to an address, and where that delivers.

    `destination` is null also where the reader may not see it; `has_destination` tells the two apart: without one they
    are not delivered. `waits`: why none of them can be delivered now; they are accepted, and wait until it is mended.
    """

    address: str
    destination: str | None
    has_destination: bool
    waits: WaitsFor | None
    count: int


@dataclass(frozen=True)
class CrashWarning:
    """A count of accepted messages that have crashed their consumer, and what awaits them."""

    count: int
    warning: ApprovalWarning


@dataclass(frozen=True)
class OperationPreview:
    """`count` is the selection's; `accepted` and the counts of `refused` sum to it.

    `change`: to patch, what trying the change led to. Where that is not the whole, those it does not apply to are
    among the `accepted`. `sign_off`: the limit that it exceeds, so that another person has to sign off; null where none
    has to. `duration`: how long the deliveries take at least; null where nothing limits them. `rules`: the enabled
    rules before deliveries that look at one of the `targets`, in their order, as far as the reader sees them; whether
    their other conditions hold is not looked at.
    """

    count: int
    accepted: int
    refused: list[LeftAlone]
    targets: list[Target]
    crashed: list[CrashWarning]
    sign_off: SignOffNeeded | None
    change: ChangePreview | None
    duration: Duration | None
    rules: list[str]

    @property
    def needs_sign_off(self) -> bool:
        """Return whether another person has to sign off."""
        return self.sign_off is not None


class _Sort(NamedTuple):
    """Members that are alike in all that matters."""

    why: str | None
    operation_id: int | None
    address: str
    back: str
    destination_id: int | None
    is_enabled: bool | None
    status: str
    crash_count: int
    has_crashed: bool
    n: int

    @property
    def waits(self) -> WaitsFor | None:
        """Why the address does not deliver now; None: it does, or delivers nowhere."""
        if self.destination_id is None:
            return None
        if self.status != AddressStatus.ON:
            return WaitsFor.ADDRESS_PAUSED if self.status == AddressStatus.PAUSED else WaitsFor.ADDRESS_STOPPED
        return None if self.is_enabled else WaitsFor.DESTINATION_DISABLED


class _Destination(NamedTuple):
    """A destination that the reader sees."""

    name: str
    max_rate_per_second: float | None


def preview(
    selection: SelectionRow,
    action: OperationAction,
    *,
    principal: Principal,
    params: Mapping[str, Any] | None = None,
    pace: Pace = UNLIMITED,
    waive: Sequence[str] = WAIVABLE,
) -> OperationPreview:
    """Return what the action would do; `waive`: the refusals of domain/replay.py that do not count.

    Errors: `NotAllowed`, `InvalidOperation`, `NotFound`, `QueryTooExpensive`.
    """
    principal.require(Permission.READ_PAYLOAD if action is OperationAction.PATCH else Permission.READ)
    if action is OperationAction.PATCH:
        refusals.require_in_the_clear(selection.id, principal)
    pace.check(action)
    given = checked_params(action, params)
    values = refusals.values(action, given | {"waive": waive}, principal)
    with bounded(PREVIEW_SECONDS):
        place = name("address" if action is OperationAction.DELIVER_NOW else "back")
        statement = _SORTS(
            members=refusals.OF_SELECTION,
            held=refusals.held(action),
            held_by_predecessor=raw(refusals.HELD_BY_PREDECESSOR),
            refusal=refusals.REFUSALS[action],
            joins=refusals.joins(action),
            place=place,
        )
        known = values | {"selection": selection.id, "visible": visible_ids(principal)}
        known["overtaken"] = refusals.overtaken(action, refusals.OF_SELECTION, known)
        sorts = [_Sort(*row) for row in fetch_rows(str(statement), known)]
        taken = [one for one in sorts if one.why is None]
        change = None
        if action is OperationAction.PATCH:
            change = preview_change(known, checked_params(action, params), sum(one.n for one in taken))
    # A member without a row is archived, or erased: carrying it out does not find it either.
    gone = selection.count - sum(one.n for one in sorts)
    refused = _refused([one for one in sorts if one.why is not None], gone)
    destinations = _destinations(principal)
    targets = _targets(taken, action, destinations)
    if change is not None and change.is_whole:
        refused += [LeftAlone(one.code, one.address, one.count, one.detail) for one in change.refused]
        targets = _without(targets, change.refused)
    return OperationPreview(
        selection.count,
        sum(one.count for one in targets),
        refused,
        targets,
        _crashed(taken) if action in DELIVERING else [],
        sign_off_needed(
            limits_of(action),
            action,
            principal=principal,
            count=selection.count,
            selection_id=selection.id,
            target=values.get("target"),
        ),
        change,
        _duration(targets, destinations, pace) if action in DELIVERING else None,
        names_before([one.address for one in targets if one.has_destination], principal=principal),
    )


def refusal_of(why: str, operation_id: int | None, back: str) -> tuple[str, str | None]:
    """Return code and detail of a refusal, for the preview and for an operation's results."""
    if operation_id is not None:
        return TAKEN, str(operation_id)
    return why, back if why in refusals.OF_TARGET else None


def _refused(sorts: Iterable[_Sort], gone: int) -> list[LeftAlone]:
    counts = Counter[tuple[str, str, str | None]]({(refusals.NOT_FOUND, "", None): gone} if gone else {})
    for one in sorts:
        code, detail = refusal_of(one.why or "", one.operation_id, one.back)
        hidden = code == refusals.NOT_FOUND
        counts[code, "" if hidden else one.address, detail] += one.n
    return [LeftAlone(code, address, n, detail) for (code, address, detail), n in counts.most_common()]


def _destinations(principal: Principal) -> dict[int, _Destination]:
    seen = destinations_seen(principal, "id")
    rows = fetch_rows(Sql("SELECT id, name, max_rate_per_second FROM destination WHERE {seen}", seen=seen))
    return {destination_id: _Destination(*limit) for destination_id, *limit in rows}


def _targets(taken: Iterable[_Sort], action: OperationAction, destinations: Mapping[int, _Destination]) -> list[Target]:
    counts = Counter[tuple[str, int | None, WaitsFor | None]]()
    for one in taken:
        address = one.back if action in DELIVERING else one.address
        place = (one.destination_id, one.waits) if action in _DELIVERED else (None, None)
        counts[address, *place] += one.n
    return [
        Target(address, seen.name if (seen := destinations.get(to or 0)) else None, to is not None, waits, n)
        for (address, to, waits), n in counts.most_common()
    ]


def _duration(targets: Iterable[Target], destinations: Mapping[int, _Destination], pace: Pace) -> Duration | None:
    """Return how long it takes at least; what the reader does not see limits nothing, since its rate would show."""
    counts = Counter[str]()
    for one in targets:
        if one.has_destination:
            counts[one.destination or ""] += one.count
    limits = dict(destinations.values())
    return duration({name: Deliveries(n, limits.get(name)) for name, n in counts.items()}, pace)


def _without(targets: Iterable[Target], refused: Iterable[NotChangedCount]) -> list[Target]:
    """Return the targets without the messages that a change does not apply to."""
    gone = Counter[str]()
    for one in refused:
        gone[one.target] += one.count
    rest = [replace(target, count=target.count - gone[target.address]) for target in targets]
    return [target for target in rest if target.count]


def _crashed(taken: Iterable[_Sort]) -> list[CrashWarning]:
    policies = policy_index()
    counts = Counter[ApprovalWarning]()
    for one in taken:
        if one.has_crashed:
            counts[approval_warning(policies.resolve(one.back).policy, one.crash_count)] += one.n
    return [CrashWarning(n, warning) for warning, n in counts.most_common()]
