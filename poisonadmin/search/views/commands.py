"""Saving a list of the page Triage under a name, and removing it."""

from typing import Any
from urllib.parse import parse_qs, urlencode

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.names import mistake_in
from poisonadmin.search.domain.filters import OF_THE_PAGE, narrowing, parse_filter
from poisonadmin.search.views.queries import get_saved_view

MAX_NAME_CHARS = 60
MAX_QUERY_CHARS = 4_000
MAX_VIEWS = 100
_KEPT = {"ordering", "group_by", "sort"}
_SAVE = """
INSERT INTO saved_view (name, owner, is_shared, query) VALUES (%(name)s, %(owner)s, %(is_shared)s, %(query)s)
ON CONFLICT (owner, name) DO UPDATE SET is_shared = EXCLUDED.is_shared, query = EXCLUDED.query,
                                        version = saved_view.version + 1, updated_at = now()
RETURNING id
"""


class InvalidSavedView(InvalidField):
    """Raised when a field of a saved view is invalid; `field` names what is wrong."""

    code = "invalid_saved_view"


def save_view(name: str, query: str, *, is_shared: bool, principal: Principal) -> int:
    """Keep a list under a name, in place of the principal's own of this name, and return its id.

    `query`: of the page Triage; what says where a page of the list begins is left out. To share takes the permission
    to decide.
    Errors: `NotAllowed`, `InvalidSavedView`, `InvalidFilter`.
    """
    principal.require(Permission.DECIDE if is_shared else Permission.READ)
    if mistake := mistake_in(name, MAX_NAME_CHARS):
        raise InvalidSavedView("name", mistake)
    values: dict[str, Any] = {"name": name, "owner": principal.name, "is_shared": is_shared, "query": _checked(query)}

    def save_once() -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_SAVE, values)
            (view_id,) = cursor.fetchone()
            _require_room(cursor, principal)
            audit.record(principal.name, "saved_view.saved", "saved_view", name, details=values)
        return int(view_id)

    return retried(save_once)


def remove_view(view_id: int, *, principal: Principal) -> None:
    """Remove a view of one's own; an administrator removes shared ones too. Errors: `NotAllowed`, `NotFound`."""
    found = get_saved_view(view_id, principal=principal)
    if found.owner != principal.name and not principal.may(Permission.CONFIGURE):
        raise NotAllowed(f"The view {found.name} is {found.owner}'s; only an administrator removes it besides.")

    def remove_once() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM saved_view WHERE id = %s RETURNING id", [view_id])
            if cursor.fetchone():
                audit.record(principal.name, "saved_view.removed", "saved_view", found.name)

    retried(remove_once)


def _checked(query: str) -> str:
    text = query.lstrip("?")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidSavedView("query", f"must have at most {MAX_QUERY_CHARS} characters.")
    try:
        given = parse_qs(text, max_num_fields=200, strict_parsing=bool(text))
    except ValueError:
        raise InvalidSavedView("query", "must be at most 200 parameters of a list, as in state=NDLV.") from None
    parse_filter(narrowing(given))
    return urlencode({name: texts for name, texts in given.items() if name in _KEPT or name not in OF_THE_PAGE}, True)


def _require_room(cursor: CursorWrapper, principal: Principal) -> None:
    cursor.execute("SELECT count(*) FROM saved_view WHERE owner = %s", [principal.name])
    if cursor.fetchone()[0] > MAX_VIEWS:
        raise InvalidSavedView("name", f"you have {MAX_VIEWS} views; remove one first.")
