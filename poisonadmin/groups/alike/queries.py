"""The failure groups that are compared, and whether they have changed since; searches for groups that look alike, and
what they propose, as they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.groups.alike.domain.proposals import AskedGroups, ComparedGroup, ProposalState
from poisonadmin.groups.alike.domain.similarity import ComparedFailure, compared_from
from poisonadmin.messages.queries.archived_index import files_of_pieces
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run, latest_run
from poisonadmin.search.queries.group_members import members_seen, visible_members

# Fingerprints; of more, those that failed last.
MAX_COMPARED = 5_000
# First those of which people have said something, then those with most failures: they stay where others are merged.
# Of each fingerprint its oldest failure that is live: it stays the same until it is archived. Where none is live, that
# of the message with which the group began, which is in the archive then, unless it was erased.
_COMPARED = """
SELECT g.id, g.seen_as, g.fingerprint, coalesce(oldest.message_id, archived.id), oldest.attempt_number,
       archived.piece_id
FROM (SELECT id, fingerprint, coalesce(merged_into_id, id) AS seen_as, failures, sample_message_id
      FROM failure_group ORDER BY last_at DESC LIMIT %s) AS g
LEFT JOIN LATERAL (
    SELECT message_id, attempt_number FROM attempt AS t
    WHERE t.outcome <> 'delivered' AND t.fingerprint = g.fingerprint ORDER BY finished_at, message_id LIMIT 1
) AS oldest ON TRUE
LEFT JOIN archived_message AS archived ON archived.id = g.sample_message_id AND oldest.message_id IS NULL
WHERE oldest.message_id IS NOT NULL OR archived.id IS NOT NULL
ORDER BY EXISTS (SELECT FROM annotation AS said WHERE said.group_id = g.seen_as) DESC,
         sum(g.failures) OVER (PARTITION BY g.seen_as) DESC, g.seen_as, g.id
"""
_DIGEST = """
SELECT coalesce(md5(string_agg(concat_ws(' ', id, fingerprint, merged_into_id), ',' ORDER BY id)), '')
FROM failure_group
"""
_SEARCHED_DIGEST = """
SELECT result ->> 'groups_digest' FROM run WHERE kind = 'alike_groups' AND state = 'succeeded'
ORDER BY created_at DESC, id DESC LIMIT 1
"""


def compared_groups() -> AskedGroups:
    """Return the fingerprints to be compared: at most `MAX_COMPARED`, each with a failure that is live or archived."""
    rows = fetch_rows(_COMPARED, [MAX_COMPARED])
    groups = [ComparedGroup(*row[: len(fields(ComparedGroup))]) for row in rows]
    pieces = {row[-1] for row in rows if row[-1] is not None}
    left_out = fetch_values("SELECT count(*) FROM failure_group")[0] - len(groups)
    return AskedGroups(groups, left_out, files_of_pieces(pieces, "attempts") if pieces else ())


def groups_digest() -> str:
    """Return what changes when there is a new fingerprint, or groups are merged or split off."""
    found: str = fetch_values(_DIGEST)[0]
    return found


def searched_digest() -> str | None:
    """Return the digest of the groups that there were at the last search that succeeded; None where there was none."""
    found: list[str] = fetch_values(_SEARCHED_DIGEST)
    return found[0] if found else None


_KEY = Key(("p.place", "p.id"), (int, int), descending=False, fields=("place", "id"))
_PROPOSALS = partial(
    Sql,
    """
SELECT p.id, p.state, p.place, p.similarity, p.text, p.into_id, p.group_id, p.into_message, p.group_message,
       p.into_failure, p.group_failure, p.dismissed_by, p.dismissed_at
FROM group_proposal AS p
JOIN failure_group AS i ON i.id = p.into_id AND i.merged_into_id IS NULL
JOIN failure_group AS g ON g.id = p.group_id AND g.merged_into_id IS NULL
WHERE {which}
""",
)
# What an account may not see of a failure it is not told by a comparison with it either.
_IS_SEEN = partial(
    Sql,
    """p.into_member = ANY({visible}) AND p.group_member = ANY({visible})
AND EXISTS (SELECT FROM message AS m WHERE m.id = p.into_message AND {scope}
            UNION ALL SELECT FROM archived_message AS m WHERE m.id = p.into_message AND {scope})
AND EXISTS (SELECT FROM message AS m WHERE m.id = p.group_message AND {scope}
            UNION ALL SELECT FROM archived_message AS m WHERE m.id = p.group_message AND {scope})""",
)


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
class _Proposal:
    id: int
    state: str
    place: int
    similarity: float
    text: str
    dismissed_by: str | None
    dismissed_at: datetime | None


@dataclass(frozen=True)
class ProposalRow(_Proposal):
    """Merge `group` into `into`: they look alike. `similarity`: 0..1; `text`: what they share, and where they differ.

    Proposals with one `place` have one `into`.
    """

    into: AlikeGroup
    group: AlikeGroup


@dataclass(frozen=True)
class _StoredProposal(_Proposal):
    into_id: int
    group_id: int
    into_message: int
    group_message: int
    into_failure: Mapping[str, Any]
    group_failure: Mapping[str, Any]


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
        chosen = _chosen(Sql("p.state = {state}", state=str(state)), principal)
        found = fetch_page(_StoredProposal, chosen, page=page)
        return Page(_shown(found.results, principal), found.next, found.previous, found.counting)


def get_proposal(proposal_id: int, *, principal: Principal) -> ProposalRow:
    """Return the proposal, also a dismissed one; raise NotFound, also where the groups are merged by now."""
    principal.require(Permission.READ)
    if 0 < proposal_id <= MAX_ID:
        chosen = _chosen(Sql("p.id = {id}", id=proposal_id), principal)
        if found := fetch(_StoredProposal, chosen):
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


def _chosen(which: Sql, principal: Principal) -> Sql:
    if (visible := visible_members(principal)) is not None:
        which = all_of([which, _IS_SEEN(visible=visible, scope=scope_condition(principal))])
    return _PROPOSALS(which=which)


def _shown(found: Sequence[_StoredProposal], principal: Principal) -> list[ProposalRow]:
    ids = sorted({one for row in found for one in (row.into_id, row.group_id)})
    members = members_seen(ids, visible_members(principal), principal)
    by_group: dict[int, list[Any]] = {one: [] for one in ids}
    masks = masks_of(principal)
    for member in members:
        by_group[member.group_id].append(member)

    def side(group_id: int, message_id: int, failure: Mapping[str, Any]) -> AlikeGroup:
        mine = by_group[group_id]
        named = next((one for one in mine if one.id == group_id), mine[0])
        what = compared_from(failure)
        is_masked = group_id in masks.groups
        return AlikeGroup(
            group_id,
            masks.title(group_id, named.title),
            message_id,
            what.kind,
            masks.title(group_id, what.message),
            () if is_masked else what.frames,
            sum(one.failures for one in mine),
            max(one.last_at for one in mine),
        )

    names = [one.name for one in fields(_Proposal)]
    return [
        ProposalRow(
            **{name: getattr(row, name) for name in names}
            | {"text": masks.title(row.into_id, masks.title(row.group_id, row.text))},
            into=side(row.into_id, row.into_message, row.into_failure),
            group=side(row.group_id, row.group_message, row.group_failure),
        )
        for row in found
    ]
