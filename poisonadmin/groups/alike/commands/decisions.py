"""Decisions on proposals: merge by one, dismiss one, have a dismissed one proposed again."""

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.commands.requests import require_merger
from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.groups.alike.queries.proposals import ProposalRow, get_proposal
from poisonadmin.groups.commands.merged_groups import merge
from poisonadmin.store.models.failure_group import GroupProposal

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
