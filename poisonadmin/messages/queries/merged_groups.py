"""Merged failure groups: what is merged into a group is seen as that group.

Messages and counters name the group of their own fingerprint, a *member* of the group that people see
(decision 47).
"""

from collections.abc import Collection

from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.core.queries.sql import Sql

# Of a row of `failure_group AS g`: the group that people see.
SEEN_AS = Sql("coalesce(g.merged_into_id, g.id)")


def members_of(group_ids: Collection[int]) -> dict[int, int]:
    """Return the ids of the groups and of what is merged into them, each with the one of `group_ids` that it is of.

    A merged group that is asked for by its own id is of itself.
    """
    wanted = [group_id for group_id in group_ids if 0 < group_id <= MAX_ID]
    found = fetch_rows(
        "SELECT id, id FROM failure_group WHERE id = ANY(%s) UNION ALL"
        " SELECT id, merged_into_id FROM failure_group WHERE merged_into_id = ANY(%s) AND id <> ALL(%s)",
        [wanted, wanted, wanted],
    )
    return dict(found)


def with_members(group_ids: Collection[int]) -> list[int]:
    """Return the ids of the groups and of what is merged into them, rising."""
    return sorted({*group_ids, *members_of(group_ids)})


def seen_as() -> dict[int, int]:
    """Return each merged group's id with that of the group which people see in its place."""
    return dict(fetch_rows("SELECT id, merged_into_id FROM failure_group WHERE merged_into_id IS NOT NULL"))
