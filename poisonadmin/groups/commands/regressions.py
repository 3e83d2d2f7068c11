"""Reopens failure groups that failed again on a version that was to mend them."""

from collections.abc import Mapping

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit

_REGRESS = """
UPDATE failure_group SET regressed_at = now(), regressed_version = one.version
FROM unnest(%s::bigint[], %s::text[]) AS one (group_id, version)
     JOIN failure_group AS failed ON failed.id = one.group_id
WHERE failure_group.id = coalesce(failed.merged_into_id, failed.id)
RETURNING failure_group.id, one.version
"""
_WAKE = """
UPDATE annotation SET snoozed_until = NULL, snoozed_failures = NULL, revision = revision + 1
WHERE group_id = ANY(%s) AND (snoozed_until IS NOT NULL OR snoozed_failures IS NOT NULL)
"""
_CLEAR = """
UPDATE failure_group SET regressed_at = NULL, regressed_version = NULL
WHERE regressed_at IS NOT NULL AND id IN (
    SELECT coalesce(failed.merged_into_id, failed.id)
    FROM selection_piece CROSS JOIN LATERAL unnest(message_ids) AS member (id)
         JOIN message ON message.id = member.id JOIN failure_group AS failed ON failed.id = message.group_id
    WHERE selection_id = %(selection)s AND EXISTS (SELECT FROM failure_group WHERE regressed_at IS NOT NULL))
"""


def reopen(cursor: CursorWrapper, versions: Mapping[int, str], *, why: str) -> None:
    """Mark groups as regressed on a version each, and have nobody overlook them: they are snoozed no more."""
    if not versions:
        return
    cursor.execute(_REGRESS, [list(versions), list(versions.values())])
    regressed = cursor.fetchall()
    cursor.execute(_WAKE, [[group_id for group_id, _ in regressed]])
    for group_id, version in regressed:
        audit.record("system", "group.regressed", "group", str(group_id), details={"version": version, "why": why})


def clear_regressed(cursor: CursorWrapper, selection_id: int) -> None:
    """Let the groups of a selection be regressed no more: another version is being tried."""
    cursor.execute(_CLEAR, {"selection": selection_id})
