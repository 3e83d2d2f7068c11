"""Searches for groups that look alike, and decisions on what they propose.

A search is requested by a person, or once a day when groups have changed. Spark compares failures, in one go of some
seconds, and new proposals take the place of those of before. A search that is cut off is begun anew, and proposes the
same. By a proposal its groups are merged; a dismissed one is not made again.
"""

from collections.abc import Callable
from functools import partial

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.domain.differences import in_words
from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, AskedGroups, Proposal, ProposalState, propose
from poisonadmin.groups.alike.queries import (
    ProposalRow,
    compared_groups,
    get_proposal,
    get_search,
    groups_digest,
    searched_digest,
)
from poisonadmin.groups.commands.merged_groups import merge
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import latest_run
from poisonadmin.store.models.failure_group import GroupProposal

# No `params`. `result`: `groups`, `left_out`, `proposals` (AlikeSearchResult), and `groups_digest`, of the groups that
# there were. Searches stay for 30 days, the last that has succeeded for ever (system/commands/housekeeping.py).
ALIKE_GROUPS = RunKind(
    KindName.ALIKE_GROUPS,
    noun="search for alike groups",
    audited_as="alike_groups.{}",
    audited_object="alike_search",
    first_phase="comparing failure groups",
    cancelled_by=Permission.DECIDE,
    shares=Lock.TABLES,
)


def request_search(*, principal: Principal) -> int:
    """Have groups that look alike searched for; return the id of the search, of the open one where there is one.

    Errors: `NotAllowed`, for who may not merge groups.
    """
    require_merger(principal)
    return request_run(ALIKE_GROUPS, {}, principal=principal, reuse={}, is_audited=principal is not SYSTEM).id


def cancel_search(search_id: int, *, principal: Principal) -> None:
    """Cancel a search that has not ended; the proposals of before stay.

    Errors: `NotAllowed`, `NotFound`, `RunEnded`.
    """
    require_merger(principal)
    get_search(search_id, principal=principal.as_reader)
    cancel_run(ALIKE_GROUPS, search_id, principal=principal)


def request_daily_search() -> None:
    """Have groups searched where nobody has since midnight (UTC), and groups have changed since the last search."""
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    last = latest_run(KindName.ALIKE_GROUPS, {})
    if last is not None and last.created_at >= today:
        return
    digest = groups_digest()
    if digest and digest != searched_digest():
        request_search(principal=SYSTEM)


def require_merger(principal: Principal) -> None:
    """Raise NotAllowed for who may not merge groups: who may not decide, or only on some addresses."""
    principal.require(Permission.DECIDE)
    if not principal.sees_everything:
        raise NotAllowed(f"Groups that look alike concern every address, and {principal.name} is limited to some.")


Report = Callable[[str], None]
Compare = Callable[[AskedGroups, Report], AlikeAnswer]
"""Finds which of these fingerprints may be alike, and reports its next phase to the second argument. Passed in: what
compares (workers) imports this package."""


def work(compare: Compare) -> RunWork:
    """Return the work of searches for groups that look alike."""
    return RunWork(ALIKE_GROUPS, partial(_carry_out, compare))


def _carry_out(compare: Compare, turn: RunTurn) -> None:
    digest = groups_digest()
    now = compared_groups()
    answer = compare(now, turn.report)
    turn.report("proposing what to merge")
    dismissed = _dismissed()
    found = propose(now.groups, answer, dismissed=dismissed)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        if _dismissed() != dismissed:  # somebody has dismissed one meanwhile; who does it now waits
            found = propose(now.groups, answer, dismissed=_dismissed())
        GroupProposal.objects.filter(state=ProposalState.OPEN).delete()
        GroupProposal.objects.bulk_create(_row(one, answer) for one in found)
        result = {
            "groups": answer.compared,
            "left_out": now.left_out + len(now.groups) - answer.compared,
            "proposals": len(found),
            "groups_digest": digest,
        }
        turn.finish(result, done=answer.compared)


def _dismissed() -> set[str]:
    return set(GroupProposal.objects.filter(state=ProposalState.DISMISSED).values_list("digest", flat=True))


def _row(one: Proposal, answer: AlikeAnswer) -> GroupProposal:
    into, group = answer.failures[one.into.id], answer.failures[one.group.id]
    return GroupProposal(
        place=one.place,
        into_id=one.into.seen_as,
        group_id=one.group.seen_as,
        into_member=one.into.id,
        group_member=one.group.id,
        into_message=one.into.message_id,
        group_message=one.group.message_id,
        into_failure=into.as_json(),
        group_failure=group.as_json(),
        similarity=one.similarity,
        text=in_words(into, group, names=(f"#{one.into.seen_as}", f"#{one.group.seen_as}")),
        digest=one.digest,
    )


_MAX_REASON_CHARS = 500


class ProposalChanged(PoisonAdminError):
    """Raised when a proposal is no more what it was: dismissed already, or not dismissed."""

    code = "proposal_changed"
    status = 409


def merge_by(proposal_id: int, *, reason: str = "", principal: Principal) -> ProposalRow:
    """Merge the groups of a proposal, and return it as it was; the proposal itself is kept until the next search, so
    it is there again when the group is split off.

    Without a reason, that they look alike is one. Errors: `NotAllowed`, `NotFound`, `GroupMerged`, `InvalidMerge`,
    `ProposalChanged` where it is dismissed.
    """
    row = get_proposal(proposal_id, principal=principal.as_reader)
    require_merger(principal)
    if row.state == ProposalState.DISMISSED:
        raise ProposalChanged(f"The proposal {proposal_id} is dismissed; have it proposed again first.")
    merge(row.into.id, [row.group.id], principal=principal, reason=reason or reason_of(row))
    return row


def reason_of(row: ProposalRow) -> str:
    """Return why to merge by this proposal, as the audit log is told when nobody says more."""
    text = f"They look alike ({row.similarity:.0%}). {row.text}"
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[: _MAX_REASON_CHARS - 1]}…"


def dismiss(proposal_id: int, *, principal: Principal) -> None:
    """Have a proposal not be made again as long as its groups have the same fingerprints.

    Errors: `NotAllowed`, `NotFound`, `ProposalChanged`.
    """
    _set(proposal_id, ProposalState.OPEN, ProposalState.DISMISSED, "alike_groups.dismissed", principal)


def propose_again(proposal_id: int, *, principal: Principal) -> None:
    """Make a dismissed proposal again. Errors: `NotAllowed`, `NotFound`, `ProposalChanged`."""
    _set(proposal_id, ProposalState.DISMISSED, ProposalState.OPEN, "alike_groups.proposed_again", principal)


def _set(proposal_id: int, was: ProposalState, now: ProposalState, event: str, principal: Principal) -> None:
    row = get_proposal(proposal_id, principal=principal.as_reader)
    require_merger(principal)
    is_dismissed = now is ProposalState.DISMISSED
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        changed = GroupProposal.objects.filter(id=proposal_id, state=was).update(
            state=now,
            dismissed_by=principal.name if is_dismissed else None,
            dismissed_at=Now() if is_dismissed else None,
        )
        if not changed:
            raise ProposalChanged(f"The proposal {proposal_id} is {now} already.")
        groups = {"groups": [row.into.id, row.group.id]}
        audit.record(principal.name, event, "group_proposal", str(proposal_id), details=groups)
