"""Merging failure groups into one, and splitting them off again.

Messages, attempts and counters stay as they are: what is merged is an alias, which readers resolve
(decision 47). So both take effect at once, for any number of messages, and the
one undoes the other.
"""

from collections.abc import Sequence

from django.db import connection, transaction

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.attempt import FailureGroup

MAX_MEMBERS = 500


class GroupMerged(PoisonAdminError):
    """Raised when a failure group is not what it has to be: merged into another one, or not merged."""

    code = "group_merged"
    status = 409


class InvalidMerge(PoisonAdminError):
    """Raised when these failure groups cannot be merged, whatever state they are in."""

    code = "invalid_merge"


# In the order in which settles lock them.
_LOCK = "SELECT FROM failure_group WHERE id = ANY(%s) ORDER BY fingerprint FOR NO KEY UPDATE"
_SET = "UPDATE failure_group SET merged_into_id = %s WHERE id = ANY(%s)"
# Failures that come or go with the others are none by which a snoozed group grows.
_SNOOZE = """
UPDATE annotation
SET snoozed_failures = snoozed_failures + %s * (SELECT sum(failures) FROM failure_group WHERE id = ANY(%s))
WHERE group_id = %s AND snoozed_failures IS NOT NULL
"""


def merge(group_id: int, others: Sequence[int], *, principal: Principal, reason: str) -> None:
    """Show the groups `others`, with what is merged into them, as the group `group_id` from now on.

    What is merged into it already stays so. Errors: `NotAllowed`, `NotFound`, `GroupMerged`, `InvalidMerge`.
    """
    _require_every_address(principal)
    wanted = sorted(set(others))
    if not wanted or group_id in wanted:
        raise InvalidMerge("Name the other groups that are to be merged into this one.")
    retried(lambda: _merge(group_id, wanted, principal, reason))


def _merge(group_id: int, wanted: list[int], principal: Principal, reason: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # of two merges at once, the second sees what the first has made
        into = _merged_into([group_id, *wanted])
        _require_unmerged(group_id, into)
        elsewhere = [f"{one} into {into[one]}" for one in wanted if into[one] not in (None, group_id)]
        if elsewhere:
            raise GroupMerged(f"Of these groups some are merged already: {', '.join(elsewhere[:10])}. Split them off.")
        moving = [one for one in wanted if into[one] is None]
        below = FailureGroup.objects.filter(merged_into__in=moving).values_list("id", flat=True)
        members = [*moving, *below]
        if len(members) + FailureGroup.objects.filter(merged_into=group_id).count() >= MAX_MEMBERS:
            raise InvalidMerge(f"A group may have at most {MAX_MEMBERS} fingerprints.")
        if not members:
            return
        cursor.execute(_LOCK, [members])
        cursor.execute(_SET, [group_id, members])
        cursor.execute(_SNOOZE, [1, members, group_id])
        audit.record(
            principal.name, "group.merged", "group", str(group_id), note=reason, details={"groups": sorted(members)}
        )


def split(group_id: int, members: Sequence[int], *, principal: Principal, reason: str) -> None:
    """Make each of `members`, which are merged into the group, a group of its own again.

    Errors: `NotAllowed`, `NotFound`, `GroupMerged`, `InvalidMerge`.
    """
    _require_every_address(principal)
    wanted = sorted(set(members))
    if not wanted:
        raise InvalidMerge("Name the merged groups that are to be split off.")
    retried(lambda: _split(group_id, wanted, principal, reason))


def _split(group_id: int, wanted: list[int], principal: Principal, reason: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        into = _merged_into([group_id, *wanted])
        if group_id in wanted:
            raise InvalidMerge(f"Group {group_id} is what the others are merged into; split off the others.")
        strangers = [str(one) for one in wanted if into[one] != group_id]
        if strangers:
            raise GroupMerged(f"Not merged into group {group_id}: {', '.join(strangers[:10])}. Nothing was split off.")
        cursor.execute(_LOCK, [wanted])
        cursor.execute(_SET, [None, wanted])
        cursor.execute(_SNOOZE, [-1, wanted, group_id])
        audit.record(principal.name, "group.split", "group", str(group_id), note=reason, details={"groups": wanted})


def _merged_into(group_ids: list[int]) -> dict[int, int | None]:
    """Return what each group is merged into; raise NotFound for one that is not there."""
    ids = [group_id for group_id in group_ids if 0 < group_id <= MAX_ID]
    found: dict[int, int | None] = dict(FailureGroup.objects.filter(id__in=ids).values_list("id", "merged_into_id"))
    missing = [str(group_id) for group_id in group_ids if group_id not in found]
    if missing:
        raise NotFound(f"There is no failure group {', '.join(missing[:10])}.")
    return found


def _require_unmerged(group_id: int, into: dict[int, int | None]) -> None:
    if into[group_id] is not None:
        raise GroupMerged(f"Group {group_id} is merged into group {into[group_id]}; merge into that one.")


def _require_every_address(principal: Principal) -> None:
    """Raise NotAllowed for who may not decide, or only on some addresses: a group is the same on all of them."""
    principal.require(Permission.DECIDE)
    if not principal.sees_everything:
        raise NotAllowed(f"Merging and splitting concern every address, and {principal.name} is limited to some.")
