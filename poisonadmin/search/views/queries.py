"""Saved views: one's own, and those that others share."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_one, known
from poisonadmin.core.queries.scope import own_or_shared
from poisonadmin.core.queries.sql import Sql, all_of


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


def _seen(principal: Principal) -> Sql:
    return own_or_shared(principal, Sql("owner = ANY({names})", names=principal.own_names))


def list_saved_views(*, principal: Principal) -> list[SavedViewRow]:
    """Return the principal's views and the shared ones of others, by name."""
    principal.require(Permission.READ)
    return fetch(SavedViewRow, Sql("{views} WHERE {seen} ORDER BY name, id", views=_SELECT, seen=_seen(principal)))


def get_saved_view(view_id: int, *, principal: Principal) -> SavedViewRow:
    """Return the view; raise NotFound, also for another's that is not shared."""
    principal.require(Permission.READ)
    this = all_of([Sql("id = {id}", id=min(view_id, MAX_ID)), _seen(principal)])
    found = fetch_one(SavedViewRow, Sql("{views} WHERE {this}", views=_SELECT, this=this))
    return known(found, f"saved view {view_id}")
