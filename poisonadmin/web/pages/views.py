"""The frame of every page: it checks the reader's permission, and keeps its filters in the URL and only there.

A page declares its entry in the side bar beside its view, with `@page(sidebar=SidebarEntry(...))`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.contrib import messages as notes
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRedirect
from rest_framework.permissions import SAFE_METHODS

from poisonadmin.core.commands.authentication import LocalLoginOff, SecondFactorMissing, principal_of_session
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Count, Page
from poisonadmin.core.queries.read_only import require_writable
from poisonadmin.web.pages.errors import NO_ROLE, advice_page, error_page

_NO_OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
_MOMENT = re.compile(r".*_(after|before)$")

MAX_REASON_CHARS = 2000
NO_REASON = "Say why; it is kept in the audit log."
Pairs = list[tuple[str, str]]
P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Principal, P], HttpResponseBase]


class Section(StrEnum):
    """The sections in their order."""

    HOME = "Home"
    TRIAGE = "Triage"
    OPERATIONS = "Operations"
    FLOWS = "Flows"
    INSIGHTS = "Insights"
    SYSTEM = "System"


@dataclass(frozen=True)
class SidebarEntry:
    """An entry: its section and its place there, its name, its icon of Tabler, and a letter
    that no other entry has: `g` and then the letter lead to it.

    The side bar shows the sections, each leading to the first entry that the reader may open; the entries of a section
    are its tabs. The entry is lit on pages whose route's name begins with the same word as its own. `also`: other such
    words. `query`: of the view that it opens. Topic, route and permission are those of the page.
    """

    section: Section
    place: int
    name: str
    icon: str
    key: str
    also: tuple[str, ...] = ()
    query: str = ""
    topic: str = ""
    route: str = ""
    permission: Permission = Permission.READ

    @property
    def link(self) -> str:
        """The URL that the entry leads to."""
        return reverse(self.route) + self.query


@dataclass(frozen=True)
class Pager:
    """Links to the pages before and after; None where there are none. `total`: the number of rows."""

    next: str | None
    previous: str | None
    first: str | None
    total: Count


def pairs(request: HttpRequest) -> Pairs:
    """Return the query parameters in order."""
    return [(name, value) for name, values in request.GET.lists() for value in values]


def href(path: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Return a URL path with a query."""
    query = urlencode([(name, value.encode("utf-8", "backslashreplace")) for name, value in parameters])
    return f"{path}?{query}" if query else path


def pager(request: HttpRequest, page: Page) -> Pager:  # type: ignore[type-arg]
    """Return the links of a keyset-paged list, which keep every other parameter, and its total."""
    kept = [(name, value) for name, value in pairs(request) if name != "cursor"]

    def to(cursor: str | None) -> str | None:
        return href(request.path, [*kept, ("cursor", cursor)]) if cursor else None

    first = href(request.path, kept) if "cursor" in request.GET else None
    return Pager(to(page.next), to(page.previous), first, page.total())


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
    target = request.POST.get("back") or request.GET.get("back", "")
    allowed = url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if allowed and target.startswith("/") else otherwise


def _with_offset(name: str, value: str) -> str:
    # A browser's date field sends no offset; the field says UTC.
    return f"{value}Z" if _MOMENT.match(name) and _NO_OFFSET.fullmatch(value) else value


def reason_of(request: HttpRequest) -> str:
    """Return the reason that was typed, cut to its limit; empty where there is none."""
    return request.POST.get("reason", "").replace("\x00", "").strip()[:MAX_REASON_CHARS]


def dialog(
    request: HttpRequest, template: str, title: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """Show a dialog: to htmx by itself, to a browser without scripts as a page of its own."""
    if getattr(request, "htmx", False):
        return render(request, template, context, status=status)
    return render(request, "web/dialog.html", {**context, "dialog": template, "title": title}, status=status)


def led_to(request: HttpRequest, url: str) -> HttpResponse:
    """Lead to a page, whether htmx asks or the browser itself: htmx would put a plain redirect's page into this one."""
    return HttpResponseClientRedirect(url) if getattr(request, "htmx", False) else HttpResponseRedirect(url)


def page(
    permission: Permission = Permission.READ,
    *,
    filters: Collection[str] | None = None,
    is_for_all: bool = False,
    sidebar: SidebarEntry | None = None,
    topic: str = "",
    works_in_read_only: bool = False,
) -> Callable[[View[P]], Callable[..., HttpResponseBase]]:
    """Wrap a view so that it is called with the principal, who holds `permission`; errors of ours become pages.

    `filters`: the view is a list, which these parameters of the query narrow. It is called with a tidy query.
    `sidebar`: its entry in the side bar, the palette and the shortcuts.
    `topic`: the document that is its help, and the heading, such as `use/search#words`; without it, that of its entry.
    `is_for_all`: what it does concerns every address, so who is limited to some is refused before anything is shown.
    """

    def wrap(view: View[P]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def gated(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_login(request)
            try:
                principal = principal_of_session(request)
            except SecondFactorMissing as error:
                notes.warning(request, error.detail)
                return led_to(request, reverse("mfa_index"))
            except LocalLoginOff as error:
                return error_page(request, error)
            if principal is None:
                return advice_page(request, NO_ROLE, "No role was given to this account.", 403, "no_role")
            request.principal = principal  # type: ignore[attr-defined]
            try:
                principal.require(permission)
                if is_for_all and not principal.sees_everything:
                    raise NotAllowed(f"This concerns every address, and {principal.name} is limited to some.")
                if request.method not in SAFE_METHODS and not works_in_read_only:
                    require_writable()
                if filters is not None:
                    if tidy := tidied(request):
                        return tidy
                    require_known(request, *filters)
                return view(request, principal, *args, **kwargs)
            except PoisonAdminError as error:
                return error_page(request, error)

        gated.permission, gated.sidebar, gated.topic = permission, sidebar, topic  # type: ignore[attr-defined]
        return never_cache(gated)

    return wrap


def _to_login(request: HttpRequest) -> HttpResponseBase:
    back = request.get_full_path()
    if getattr(request, "htmx", False):
        current = urlsplit(request.headers.get("HX-Current-URL", "/"))
        back = f"{current.path}?{current.query}" if current.query else current.path
    return led_to(request, redirect_to_login(back).url)


@cache
def sections() -> list[tuple[str, list[SidebarEntry]]]:
    """Return the sections with the entries that pages declare, each beside its view."""
    views = [(route, cast("Any", route.callback)) for route in routes_of(get_resolver())]
    declared = [
        replace(view.sidebar, route=route.name, permission=view.permission, topic=view.topic)
        for route, view in views
        if getattr(view, "sidebar", None)
    ]
    entries = sorted(declared, key=lambda entry: entry.place)
    return [(section, [entry for entry in entries if entry.section == section]) for section in Section]


def routes_of(part: URLPattern | URLResolver) -> Iterator[URLPattern]:
    """Yield the routes that a part of the URL configuration comes to."""
    if isinstance(part, URLPattern):
        yield part
        return
    for inner in part.url_patterns:
        yield from routes_of(inner)
