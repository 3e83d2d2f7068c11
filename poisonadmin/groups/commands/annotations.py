"""Annotating messages and failure groups: owner, note and tags, and of a group its ticket and its snooze."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PreconditionFailed, all_checked
from poisonadmin.core.queries.rows import database_time, fetch_values
from poisonadmin.core.queries.sql import Sql, name, named_sql, raw
from poisonadmin.groups.commands.merged_groups import GroupMerged
from poisonadmin.groups.domain.annotations import (
    InvalidAnnotation,
    checked_note,
    checked_snooze,
    checked_tags,
    checked_ticket_url,
    failures_when,
)
from poisonadmin.groups.queries.groups import GroupDetail, get_group
from poisonadmin.search.queries.owners import account_id


def annotation_statement(subject: str, subjects: str) -> Sql:
    """Return the statement that annotates the subjects whose `id` is in `subjects`, a FROM clause.

    `subject`: the column that names them, message_id or group_id. The statement needs `sets`, a JSON object of the
    columns that change, `tags_added`, `tags_removed`, and `revision`: what has another one is left alone; NULL for any.
    """
    return named_sql(
        """
    INSERT INTO annotation ({subject}, owner_id, note, ticket_url, snoozed_until, snoozed_failures, tags, revision)
    SELECT one.id, owner_id, new.note, ticket_url, snoozed_until, snoozed_failures, tags || %(tags_added)s::varchar[], 1
    FROM {subjects} AS one
         CROSS JOIN jsonb_populate_record(NULL::annotation, '{{"note": "", "tags": []}}' || %(sets)s::jsonb) AS new
    ORDER BY one.id
    ON CONFLICT ({subject}) WHERE {subject} IS NOT NULL DO UPDATE
    SET (owner_id, note, ticket_url, snoozed_until, snoozed_failures, tags, revision) = (
        SELECT owner_id, note, ticket_url, snoozed_until, snoozed_failures,
               ARRAY(SELECT unnest(tags || %(tags_added)s::varchar[]) EXCEPT SELECT unnest(%(tags_removed)s::varchar[])
                     ORDER BY 1), revision + 1
        FROM jsonb_populate_record(annotation, %(sets)s::jsonb))
    WHERE %(revision)s::int IS NULL OR annotation.revision = %(revision)s""",
        subject=name(subject),
        subjects=raw(subjects),
    )


_FAILURES = "SELECT sum(failures)::bigint FROM failure_group WHERE id = %s OR merged_into_id = %s"
# Growth is given, and the failures that it leads to are kept.
_COLUMNS = {"snoozed_until_grown": "snoozed_failures"}
_ANNOTATE_GROUP = str(annotation_statement("group_id", "(SELECT %(group)s::bigint AS id)"))


def annotate(
    group_id: int, changes: Mapping[str, Any], *, principal: Principal, expected_revision: int | None = None
) -> None:
    """Change what is given of a group's owner (a user's name), note, ticket_url, tags, snoozed_until and
    snoozed_until_grown (`failures_when`); None empties it.

    Nothing is written when nothing differs. Errors: `NotAllowed`, `NotFound`, `GroupMerged`, `InvalidAnnotation`,
    `PreconditionFailed`.
    """
    principal.require(Permission.DECIDE)
    group = get_group(group_id, principal=principal.as_reader)
    # A group may have failures that this account does not see, and learns nothing of.
    unseen = fetch_values(_FAILURES, [group_id, group_id])[0] - group.failures
    if group.merged_into_id is not None:
        raise GroupMerged(f"Group {group_id} is merged into group {group.merged_into_id}; change that one.")
    changed = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in _checked(changes, group, principal).items()
        if value != getattr(group, name)
    }
    with transaction.atomic(), connection.cursor() as cursor:
        is_current = expected_revision in (None, group.revision)
        if is_current and changed:
            # What is over is no part of another snooze.
            kept = {
                "snoozed_until": group.snoozed_until and group.snoozed_until.isoformat(),
                "snoozed_failures": group.snoozed_failures,
            }
            stored = (kept if kept.keys() & changed else {}) | changed
            if stored.get("snoozed_failures") is not None:
                stored["snoozed_failures"] += unseen
            owner = {"owner_id": account_id(changed["owner"] or "", principal)} if "owner" in changed else {}
            values: dict[str, Any] = {
                "sets": json.dumps(stored | owner),
                "tags_added": [],
                "tags_removed": [],
            }
            cursor.execute(_ANNOTATE_GROUP, values | {"group": group_id, "revision": expected_revision})
            is_current = cursor.rowcount == 1
        if not is_current:
            raise PreconditionFailed(f"The failure group {group_id} has changed since it was read; nothing was saved.")
        if changed:
            audit.record(principal.name, "group.annotated", "group", str(group_id), details=changed)


def _checked(changes: Mapping[str, Any], group: GroupDetail, principal: Principal) -> dict[str, Any]:
    """Return what the changes make of each field; every mistake is found in one go."""
    checks: dict[str, Callable[[Any], Any]] = {
        "owner": lambda name: _owner(name, principal),
        "note": checked_note,
        "ticket_url": checked_ticket_url,
        "tags": lambda tags: checked_tags(tags or []),
        "snoozed_until": lambda until: checked_snooze(until, now=database_time()),
        "snoozed_failures": lambda grown: failures_when(grown, now=group.failures),
    }
    given = {_COLUMNS.get(name, name): value for name, value in changes.items()}
    return all_checked({name: lambda name=name: checks[name](given[name]) for name in given})  # type: ignore[misc]


def _owner(username: str | None, principal: Principal) -> str | None:
    if username and account_id(username, principal) is None:
        raise InvalidAnnotation("owner", f"There is no account {username[:80]}")
    return username or None
