"""Annotating a failure group: its owner, note, ticket, tags, and until when it is snoozed."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PreconditionFailed, all_checked
from poisonadmin.core.queries.rows import database_time
from poisonadmin.groups.commands.merged_groups import GroupMerged
from poisonadmin.groups.domain.annotations import (
    InvalidAnnotation,
    checked_note,
    checked_snooze,
    checked_tags,
    checked_ticket_url,
)
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.search.queries.owners import account_id
from poisonadmin.store.models.failure_group import GroupAnnotation

# Made where it is missing, and locked: of two who change it at once, the second reads what the first has made of it.
_LOCK = """
INSERT INTO group_annotation (group_id, tags) VALUES (%s, '{}')
ON CONFLICT (group_id) DO UPDATE SET group_id = excluded.group_id
"""


def annotate(
    group_id: int, changes: Mapping[str, Any], *, principal: Principal, expected_revision: int | None = None
) -> None:
    """Change what is given of owner (a user's name), note, ticket_url, tags and snoozed_until; None empties it.

    Nothing is written when nothing differs. Errors: `NotAllowed`, `NotFound`, `GroupMerged`, `InvalidAnnotation`,
    `PreconditionFailed`.
    """
    principal.require(Permission.DECIDE)
    group = get_group(group_id, principal=principal.as_reader)
    if group.merged_into_id is not None:
        raise GroupMerged(f"Group {group_id} is merged into group {group.merged_into_id}; change that one.")
    values = _checked(changes)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [group_id])
        before = GroupAnnotation.objects.get(group_id=group_id)
        if expected_revision not in (None, before.revision):
            raise PreconditionFailed(f"The failure group {group_id} has changed since it was read; nothing was saved.")
        changed = {column: value for column, value in values.items() if getattr(before, column) != value}
        if changed:
            GroupAnnotation.objects.filter(group_id=group_id).update(**changed, revision=before.revision + 1)
            audit.record(
                principal.name, "group.annotated", "group", str(group_id), details=_annotation_of(changes, changed)
            )


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that the changes are; every mistake is found in one go."""
    checks: dict[str, Callable[[Any], Any]] = {
        "owner": _owner_id,
        "note": lambda note: checked_note(note or ""),
        "ticket_url": checked_ticket_url,
        "tags": lambda tags: checked_tags(tags or []),
        "snoozed_until": lambda until: checked_snooze(until, now=database_time()),
    }
    found = all_checked({name: lambda name=name: checks[name](changes[name]) for name in changes})  # type: ignore[misc]
    return {"owner_id" if name == "owner" else name: value for name, value in found.items()}


def _owner_id(username: str | None) -> int | None:
    if not username:
        return None
    found = account_id(username)
    if found is None:
        raise InvalidAnnotation("owner", f"There is no account {username[:80]}")
    return found


def _annotation_of(changes: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes as the audit log shows them: the owner by name, times as texts."""
    names = ["owner" if column == "owner_id" else column for column in changed]
    values = {name: changed.get(name) if name != "owner" else changes["owner"] or None for name in names}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
