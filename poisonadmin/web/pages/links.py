"""Filters live in the URL and only there: the URLs of the next page, of a list without one filter, and so on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme

from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Page

_NO_OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
_MOMENT = re.compile(r".*_(after|before)$")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Pager:
    """Where the list goes on; None where it does not."""

    next: str | None
    previous: str | None
    first: str | None


def pairs(request: HttpRequest) -> Pairs:
    """Return the query parameters in order."""
    return [(name, value) for name, values in request.GET.lists() for value in values]


def href(path: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Return a URL path with a query."""
    query = urlencode([(name, value.encode("utf-8", "backslashreplace")) for name, value in parameters])
    return f"{path}?{query}" if query else path


def pager(request: HttpRequest, page: Page) -> Pager:  # type: ignore[type-arg]
    """Return the links of a keyset-paged list, which keep every other parameter."""
    kept = [(name, value) for name, value in pairs(request) if name != "cursor"]

    def to(cursor: str | None) -> str | None:
        return href(request.path, [*kept, ("cursor", cursor)]) if cursor else None

    first = href(request.path, kept) if "cursor" in request.GET else None
    return Pager(to(page.next), to(page.previous), first)


def require_known(request: HttpRequest, *names: str) -> None:
    """Raise InvalidFilter for a parameter that is not one of `names`: a typo must never mean "everything"."""
    for name in request.GET:
        if name not in (*names, "cursor"):
            raise InvalidFilter(
                name[:100], f"There is no parameter {name[:100]!r} on this page.", code="unknown_parameter"
            )


def tidied(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to the same list without empty fields, and with times said in UTC; None when tidy."""
    given = pairs(request)
    tidy = [(name, _with_offset(name, value)) for name, value in given if value != ""]
    return None if tidy == given else HttpResponseRedirect(href(request.path, tidy))


def back_to(request: HttpRequest, otherwise: str) -> str:
    """Return the page that the form came from, when it is one of ours."""
    target = request.POST.get("back", "")
    allowed = url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if allowed and target.startswith("/") else otherwise


def _with_offset(name: str, value: str) -> str:
    # A browser's date field sends no offset; the field says UTC.
    return f"{value}Z" if _MOMENT.match(name) and _NO_OFFSET.fullmatch(value) else value
