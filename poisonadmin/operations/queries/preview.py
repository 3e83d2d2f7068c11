"""What an operation would do with a selection now, by the very checks that carrying it out makes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.messages.queries import refusals
from poisonadmin.messages.queries.approval_warnings import ApprovalWarning, approval_warning
from poisonadmin.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.operations.domain.params import checked_params
from poisonadmin.operations.queries.change_preview import ChangePreview, NotChangedCount, preview_change
from poisonadmin.operations.queries.selections import SelectionRow
from poisonadmin.policies.queries.index import policy_index
from poisonadmin.sign_offs.domain.sign_off import SignOffNeeded
from poisonadmin.sign_offs.queries.needed import limits_of, sign_off_needed

PREVIEW_SECONDS = 60
# It waits or is under way for another operation.
TAKEN = "taken"
_SORTS = """
SELECT why, CASE WHEN why IN ('TBDL', 'DLNG') THEN operation_id END, address, back, destination, crash_count,
       has_crashed, count(*)
FROM (
    SELECT {refusal} AS why, message.operation_id, address.name AS address, back.name AS back,
           destination.name AS destination, message.candidate OR message.crash_count > 0 AS has_crashed,
           CASE WHEN message.candidate OR message.crash_count > 0 THEN message.crash_count ELSE 0 END AS crash_count
    FROM (SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %(selection)s) AS member
         JOIN message ON message.id = member.id {joins}
         LEFT JOIN destination ON destination.id = back.destination_id
) AS looked_at
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""


@dataclass(frozen=True)
class LeftAlone:
    """How many messages of an address will be left alone, and why: `code` is a code, or the state that they are in.

    `detail`: the address that does not take them, or the operation that has them.
    """

    code: str
    address: str
    count: int
    detail: str | None


@dataclass(frozen=True)
class Target:
    """How many messages will go to an address, and where that delivers; None: nowhere, they are not delivered."""

    address: str
    destination: str | None
    count: int


@dataclass(frozen=True)
class CrashWarning:
    """How many accepted messages have crashed their consumer, and what awaits them."""

    count: int
    warning: ApprovalWarning


@dataclass(frozen=True)
class OperationPreview:
    """`count` is the selection's; `accepted` and the counts of `refused` sum to it.

    `change`: to patch, what trying the change led to. Where that is not the whole, those it does not apply to are
    among the `accepted`. `sign_off`: the limit that it exceeds, so that another person has to sign off; null where none
    has to.
    """

    count: int
    accepted: int
    refused: list[LeftAlone]
    targets: list[Target]
    crashed: list[CrashWarning]
    sign_off: SignOffNeeded | None
    change: ChangePreview | None

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
    destination: str | None
    crash_count: int
    has_crashed: bool
    n: int


def preview(
    selection: SelectionRow, action: OperationAction, *, principal: Principal, params: Mapping[str, Any] | None = None
) -> OperationPreview:
    """Return what the action would do. Errors: `NotAllowed`, `InvalidOperation`, `NotFound`, `QueryTooExpensive`."""
    principal.require(Permission.READ_PAYLOAD if action is OperationAction.PATCH else Permission.READ)
    values = refusals.values(action, checked_params(action, params), principal)
    with bounded(PREVIEW_SECONDS):
        statement = _SORTS.format(refusal=refusals.REFUSALS[action], joins=refusals.joins(action))
        known = values | {"selection": selection.id, "visible": visible_ids(principal)}
        sorts = [_Sort(*row) for row in fetch_rows(statement, known)]
        taken = [one for one in sorts if one.why is None]
        change = None
        if action is OperationAction.PATCH:
            change = preview_change(known, checked_params(action, params), sum(one.n for one in taken))
    refused = _refused([one for one in sorts if one.why is not None])
    targets = _targets(taken, goes_back=action in DELIVERING)
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
    )


def refusal_of(why: str, operation_id: int | None, back: str) -> tuple[str, str | None]:
    """Return code and detail of a refusal, for the preview and for an operation's results."""
    if operation_id is not None:
        return TAKEN, str(operation_id)
    return why, back if why in refusals.OF_TARGET else None


def _refused(sorts: Iterable[_Sort]) -> list[LeftAlone]:
    counts = Counter[tuple[str, str, str | None]]()
    for one in sorts:
        code, detail = refusal_of(one.why or "", one.operation_id, one.back)
        hidden = code == refusals.NOT_FOUND
        counts[code, "" if hidden else one.address, detail] += one.n
    return [LeftAlone(code, address, n, detail) for (code, address, detail), n in counts.most_common()]


def _targets(taken: Iterable[_Sort], *, goes_back: bool) -> list[Target]:
    counts = Counter[tuple[str, str | None]]()
    for one in taken:
        counts[(one.back, one.destination) if goes_back else (one.address, None)] += one.n
    return [Target(address, destination, n) for (address, destination), n in counts.most_common()]


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
