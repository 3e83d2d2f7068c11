"""Merging by all proposals above a likeness with one click, and taking that back with another one."""

from dataclasses import astuple

from django.db import transaction
from django.db.models.functions import Now

from poisonadmin.alike_groups.commands.requests import require_merger
from poisonadmin.alike_groups.queries.merges import LIKENESS, get_merge
from poisonadmin.alike_groups.queries.proposals import open_pairs
from poisonadmin.core.commands import audit
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError
from poisonadmin.messages.commands.many_merged_groups import MergedGroup, merge_many, unmerge
from poisonadmin.store.models.alike_groups import AlikeMerge


class InvalidLikeness(InvalidField):
    """Raised when proposals are to be merged by a likeness that none of them could lack, or have."""

    code = "invalid_likeness"


class NothingToMerge(PoisonAdminError):
    """Raised when no open proposal is so much alike."""

    code = "nothing_to_merge"
    status = 409


class MergeUndone(PoisonAdminError):
    """Raised when a merge is to be undone that is undone."""

    code = "merge_undone"
    status = 409


def merge_all(likeness: int, *, principal: Principal) -> int:
    """Merge by every open proposal that is at least `likeness` % alike, at once; return the id of what was merged.

    What was merged or split off since it was proposed, and what a group has no room for, is left alone.
    Errors: `NotAllowed`, `InvalidLikeness`, `NothingToMerge`.
    """
    require_merger(principal)
    if likeness not in LIKENESS:
        raise InvalidLikeness("likeness", f"must be a whole number from {LIKENESS[0]} to {LIKENESS[-1]}, in percent.")
    return retried(lambda: _merge_all(likeness, principal))


@transaction.atomic
def _merge_all(likeness: int, principal: Principal) -> int:
    reason = f"They look alike (at least {likeness} %)."
    changed = merge_many(open_pairs(likeness), principal=principal, reason=reason)
    if not changed:
        raise NothingToMerge(f"No proposal is at least {likeness} % alike.")
    count = sum(one.was is None for one in changed)
    made = AlikeMerge.objects.create(
        likeness=likeness, proposals=count, changed=[astuple(one) for one in changed], merged_by=principal.name
    )
    details = {"likeness": likeness, "proposals": count}
    audit.record(principal.name, "alike_groups.merged", "alike_merge", str(made.id), details=details)
    return made.id


def undo(merge_id: int, *, principal: Principal) -> int:
    """Split off what a merge of all has merged, as it was before; return how many groups that changed.

    What was split off, or merged elsewhere, since then is left alone. Errors: `NotAllowed`, `NotFound`, `MergeUndone`.
    """
    require_merger(principal)
    get_merge(merge_id, principal=principal.as_reader)
    return retried(lambda: _undo(merge_id, principal))


@transaction.atomic
def _undo(merge_id: int, principal: Principal) -> int:
    undone = AlikeMerge.objects.filter(id=merge_id, undone_at=None).update(undone_by=principal.name, undone_at=Now())
    if not undone:
        raise MergeUndone(f"The merge {merge_id} is undone already.")
    changed = [MergedGroup(*one) for one in AlikeMerge.objects.get(id=merge_id).changed]
    count = unmerge(changed, principal=principal, reason=f"Merge {merge_id} is undone.")
    audit.record(principal.name, "alike_groups.merge_undone", "alike_merge", str(merge_id), details={"groups": count})
    return count
