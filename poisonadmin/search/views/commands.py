"""Saving a list of the page Triage under a name, and removing it."""

from urllib.parse import parse_qs, urlencode

from poisonadmin.core.commands.configured import remove_own, save_own
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import mistake_in
from poisonadmin.search.domain.filters import OF_THE_PAGE, fields_of, narrowing, parse_filter
from poisonadmin.search.views.queries import get_saved_view
from poisonadmin.store.models.search import SavedView

MAX_NAME_CHARS = 60
MAX_QUERY_CHARS = 4_000
_KEPT = {"ordering", "group_by", "sort"}


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
    values = {"name": name, "is_shared": is_shared, "query": _checked(query)}
    shortened = {"query": lambda kept: fields_of(narrowing(parse_qs(kept)))}
    return save_own(SavedView, "view", values, principal=principal, refuse=InvalidSavedView, shortened=shortened).id


def remove_view(view_id: int, *, principal: Principal) -> None:
    """Remove a view of one's own; an administrator removes shared ones too. Errors: `NotAllowed`, `NotFound`."""
    found = get_saved_view(view_id, principal=principal)
    remove_own("saved_view", "view", found, principal=principal)


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
