"""Searches for groups that look alike, and what they propose, as they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.groups.alike.domain.compared import ComparedFailure, compared_from
from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run, latest_run
from poisonadmin.search.queries.group_members import members_seen, visible_members

_KEY = Key(("p.place", "p.id"), (int, int), descending=False, fields=("place", "id"))
_PROPOSALS = """
SELECT p.id, p.state, p.place, p.similarity, p.text, p.into_id, p.group_id, p.into_member, p.group_member,
       p.into_message, p.group_message, p.into_failure, p.group_failure, p.dismissed_by, p.dismissed_at
FROM group_proposal AS p
JOIN failure_group AS i ON i.id = p.into_id AND i.merged_into_id IS NULL
JOIN failure_group AS g ON g.id = p.group_id AND g.merged_into_id IS NULL
WHERE {which}
"""
# What an account may not see of a failure it is not told by a comparison with it either.
_IS_SEEN = """p.into_member = ANY(%s) AND p.group_member = ANY(%s)
AND EXISTS (SELECT FROM message AS m WHERE m.id = p.into_message AND {scope}
            UNION ALL SELECT FROM archived_message AS m WHERE m.id = p.into_message AND {scope})
AND EXISTS (SELECT FROM message AS m WHERE m.id = p.group_message AND {scope}
            UNION ALL SELECT FROM archived_message AS m WHERE m.id = p.group_message AND {scope})"""


@dataclass(frozen=True)
class AlikeSearchResult:
    """`groups`: fingerprints that were compared; `left_out`: those that were not, for their number or since no failure
    of theirs is left; `proposals`: how many were made."""

    groups: int
    left_out: int
    proposals: int


@dataclass(frozen=True)
class AlikeSearchRow(RunFields):
    """A search for groups that look alike. `result`: null until it has succeeded. For accounts that are limited to
    addresses the result, who requested it and the error are null, and `done` is 0.
    """

    requested_by: str | None  # type: ignore[assignment]
    result: AlikeSearchResult | None


@dataclass(frozen=True)
class AlikeGroup:
    """A group, and the failure of it that was compared: of the message `message_id`. `error_class`: of the cause, with
    the status of an HTTP answer; `message`: without what varies; `frames`: the application's, the
    one nearest to the cause first. Failures and times are in the reader's scope.
    """

    id: int
    title: str
    message_id: int
    error_class: str
    message: str
    frames: Sequence[str]
    failures: int
    last_at: datetime

    @property
    def failure(self) -> ComparedFailure:
        """The compared failure."""
        return ComparedFailure(self.error_class, self.message, tuple(self.frames))


@dataclass(frozen=True)
class ProposalRow:
    """Merge `group` into `into`: they look alike. `similarity`: 0..1; `text`: what they share, and where they differ.

    Proposals with one `place` have one `into`.
    """

    id: int
    state: str
    place: int
    similarity: float
    text: str
    into: AlikeGroup
    group: AlikeGroup
    dismissed_by: str | None
    dismissed_at: datetime | None


@dataclass(frozen=True)
class _StoredProposal:
    id: int
    state: str
    place: int
    similarity: float
    text: str
    into_id: int
    group_id: int
    into_member: int
    group_member: int
    into_message: int
    group_message: int
    into_failure: Mapping[str, Any]
    group_failure: Mapping[str, Any]
    dismissed_by: str | None
    dismissed_at: datetime | None


def list_proposals(
    state: ProposalState = ProposalState.OPEN,
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[ProposalRow]:
    """Return one page of the proposals, best first; those of groups in scope whose failures are in scope.

    What was merged since, by a proposal or otherwise, is left out. Errors: `NotAllowed`, `InvalidCursor`,
    `QueryTooExpensive`.
    """
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        sql, parameters = _select("p.state = %s", [str(state)], principal)
        found = fetch_page(_StoredProposal, sql, parameters, page)
        return Page(_shown(found.results, principal), found.next, found.previous, found.counting)


def get_proposal(proposal_id: int, *, principal: Principal) -> ProposalRow:
    """Return the proposal, also a dismissed one; raise NotFound, also where the groups are merged by now."""
    principal.require(Permission.READ)
    if 0 < proposal_id <= MAX_ID:
        sql, parameters = _select("p.id = %s", [proposal_id], principal)
        if found := fetch(_StoredProposal, sql, parameters):
            return _shown(found, principal)[0]
    raise NotFound(f"There is no proposal {proposal_id}.")


def latest_search(*, principal: Principal) -> AlikeSearchRow | None:
    """Return the search that was requested last; None where there was none."""
    principal.require(Permission.READ)
    run = latest_run(KindName.ALIKE_GROUPS, {})
    return None if run is None else _search(run, principal)


def get_search(search_id: int, *, principal: Principal) -> AlikeSearchRow:
    """Return the search; raise NotFound."""
    principal.require(Permission.READ)
    run = find_run(KindName.ALIKE_GROUPS, search_id)
    if run is None:
        raise NotFound(f"There is no search {search_id} for groups that look alike.")
    return _search(run, principal)


def _search(run: StoredRun, principal: Principal) -> AlikeSearchRow:
    if not principal.sees_everything:
        return AlikeSearchRow(**run.shown | {"requested_by": None, "error": None, "done": 0}, result=None)
    names = [field.name for field in fields(AlikeSearchResult)]
    result = None if run.result is None else AlikeSearchResult(**{name: run.result[name] for name in names})
    return AlikeSearchRow(**run.shown, result=result)


def _select(which: str, parameters: list[Any], principal: Principal) -> tuple[str, list[Any]]:
    if (visible := visible_members(principal)) is not None:
        scope, own = scope_condition(principal)
        which = f"{which} AND {_IS_SEEN.format(scope=scope)}"
        parameters = [*parameters, visible, visible, *own * 4]
    return _PROPOSALS.format(which=which), parameters


def _shown(found: Sequence[_StoredProposal], principal: Principal) -> list[ProposalRow]:
    ids = sorted({one for row in found for one in (row.into_id, row.group_id)})
    members = members_seen(ids, visible_members(principal), principal)
    by_group: dict[int, list[Any]] = {one: [] for one in ids}
    for member in members:
        by_group[member.group_id].append(member)

    def side(group_id: int, message_id: int, failure: Mapping[str, Any]) -> AlikeGroup:
        mine = by_group[group_id]
        named = next((one for one in mine if one.id == group_id), mine[0])
        what = compared_from(failure)
        return AlikeGroup(
            group_id,
            named.title,
            message_id,
            what.kind,
            what.message,
            what.frames,
            sum(one.failures for one in mine),
            max(one.last_at for one in mine),
        )

    return [
        ProposalRow(
            row.id,
            row.state,
            row.place,
            row.similarity,
            row.text,
            side(row.into_id, row.into_message, row.into_failure),
            side(row.group_id, row.group_message, row.group_failure),
            row.dismissed_by,
            row.dismissed_at,
        )
        for row in found
    ]
