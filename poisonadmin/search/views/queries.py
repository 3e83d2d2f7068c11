"""Saved views: one's own, and those that others share.

A filter can name addresses: who is limited to some sees no view of others.
"""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id
from poisonadmin.core.queries.sql import Sql


@dataclass(frozen=True)
class SavedViewRow(Versioned):
    """A list under a name. `query`: parameters of the page Triage, as its URL has them."""

    id: int
    name: str
    owner: str
    is_shared: bool
    query: str
    version: int
    updated_at: datetime


_SELECT = Sql("SELECT {columns} FROM saved_view", columns=columns(SavedViewRow, "saved_view"))


def list_saved_views(*, principal: Principal) -> list[SavedViewRow]:
    """Return the principal's views and the shared ones of others, by name."""
    principal.require(Permission.READ)
    return fetch(
        SavedViewRow,
        Sql(
            "{views} WHERE owner = {owner} OR (is_shared AND {sees_all}) ORDER BY name, id",
            views=_SELECT,
            owner=principal.name,
            sees_all=principal.sees_everything,
        ),
    )


def get_saved_view(view_id: int, *, principal: Principal) -> SavedViewRow:
    """Return the view; raise NotFound, also for another's that is not shared."""
    principal.require(Permission.READ)
    found = fetch_by_id(SavedViewRow, f"{_SELECT} WHERE id = %s", view_id)
    is_others = found is not None and found.owner != principal.name
    if found is None or (is_others and not (found.is_shared and principal.sees_everything)):
        raise NotFound(f"There is no saved view {view_id}.")
    return found
