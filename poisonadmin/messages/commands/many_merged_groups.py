"""Merging many failure groups at once, into several ones, and taking all of it back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import connection

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.commands.merged_groups import LOCK, MAX_MEMBERS, require_every_address
from poisonadmin.store.models.attempt import FailureGroup

_MERGE = """
UPDATE failure_group AS g SET merged_into_id = one.now FROM unnest(%s::bigint[], %s::bigint[]) AS one (id, now)
WHERE g.id = one.id
"""
# A group into which another one had been merged takes it along again; unless it is itself merged by now, elsewhere.
_UNDO = """
UPDATE failure_group AS g SET merged_into_id = coalesce(w.merged_into_id, w.id)
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS one (id, was, now)
     LEFT JOIN failure_group AS w ON w.id = one.was
WHERE g.id = one.id AND g.merged_into_id = one.now AND {which} RETURNING g.id, one.now
"""


@dataclass(frozen=True)
class MergedGroup:
    """What a merge changed of a group: `was`: what it was merged into before, None for nothing; `now`: since then."""

    id: int
    was: int | None
    now: int


def merge_many(pairs: Iterable[tuple[int, int]], *, principal: Principal, reason: str) -> list[MergedGroup]:
    """Show each first group of a pair, with what is merged into it, as the second one; return what that changed.

    Left alone are pairs of which a group is merged by now, and those for which the second group has no room. Call it
    in a transaction. Errors: `NotAllowed`.
    """
    require_every_address(principal)
    with connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # of two merges at once, the second sees what the first has made
        members = _members()
        changed: list[MergedGroup] = []
        gone: set[int] = set()
        for group_id, into in pairs:
            below = members.get(group_id)
            has_room = below is not None and len(below) + len(members.get(into, ())) < MAX_MEMBERS - 1
            if group_id == into or into not in members or group_id in gone or into in gone or not has_room:
                continue
            changed += [MergedGroup(group_id, None, into), *(MergedGroup(one, group_id, into) for one in below or ())]
            members[into] += [group_id, *members.pop(group_id)]
            gone.add(group_id)
        ids = [one.id for one in changed]
        cursor.execute(LOCK, [ids])
        cursor.execute(_MERGE, [ids, [one.now for one in changed]])
    _record("group.merged", [(one.id, one.now) for one in changed], principal, reason)
    return changed


def unmerge(changed: Sequence[MergedGroup], *, principal: Principal, reason: str) -> int:
    """Take a merge of many back, as far as nobody has done so since; return how many groups stand alone again.

    Call it in a transaction. Errors: `NotAllowed`.
    """
    require_every_address(principal)
    ids = [one.id for one in changed]
    undone: list[tuple[int, int]] = []
    with connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        cursor.execute(LOCK, [ids])
        for which in ("one.was IS NULL", "one.was IS NOT NULL"):
            values: list[Any] = [ids, [one.was for one in changed], [one.now for one in changed]]
            cursor.execute(_UNDO.format(which=which), values)
            undone += cursor.fetchall()
    _record("group.split", undone, principal, reason)
    return len(undone)


def _members() -> dict[int, list[int]]:
    """Return of each group that is merged into none those that are merged into it."""
    found: dict[int, list[int]] = {}
    below: list[tuple[int, int]] = []
    for group_id, into in FailureGroup.objects.order_by("id").values_list("id", "merged_into_id"):
        if into is None:
            found[group_id] = []
        else:
            below.append((group_id, into))
    for group_id, into in below:
        found[into].append(group_id)
    return found


def _record(event: str, changed: Iterable[tuple[int, int]], principal: Principal, reason: str) -> None:
    """Note in the audit log of each group that stays what was merged into it, or split off."""
    for into, some in groupby(sorted(changed, key=lambda one: one[1]), key=lambda one: one[1]):
        details = {"groups": sorted(group_id for group_id, _ in some)}
        audit.record(principal.name, event, "group", str(into), note=reason, details=details)
