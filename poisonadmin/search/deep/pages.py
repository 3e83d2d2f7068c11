"""Searches in payloads on the page Triage: beginning one, how far it is, and cancelling it."""

from urllib.parse import parse_qs

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.runs.commands.requests import RunEnded
from poisonadmin.search.deep.commands.requests import cancel_search, request_search
from poisonadmin.search.deep.queries import archived_found, get_search, list_found
from poisonadmin.search.domain.filters import narrowing
from poisonadmin.web.pages.views import back_to, led_to, page


@require_POST
@page()
def begin(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Search for what a list's filter says, and show the list again; `again`: also where it is known already."""
    query = request.POST.get("query", "").lstrip("?")
    given = narrowing(parse_qs(query, max_num_fields=200))
    try:
        request_search(given, principal=principal, finds_former="again" not in request.POST)
    except PoisonAdminError as error:
        if getattr(request, "htmx", False):
            return render(request, "searches/_refused.html", {"problem": error})
        notes.error(request, f"The search was not begun: {error.detail}")
    link = f"{reverse('triage')}?{query}"
    return led_to(request, link)


@page(filters=())
def live(request: HttpRequest, principal: Principal, search_id: int) -> HttpResponseBase:
    """Render how far a search is and what it has found so far; once it is over, the page is shown anew."""
    search = get_search(search_id, principal=principal)
    if search.is_over:
        return HttpResponseClientRefresh()
    found = list_found(search, principal=principal)
    archived = archived_found(search, principal=principal, limit=50)
    context = {"search": search, "rows": found.results, "archived": archived}
    return render(request, "searches/_running.html", context)


@require_POST
@page()
def cancel(request: HttpRequest, principal: Principal, search_id: int) -> HttpResponseBase:
    """Cancel a search."""
    try:
        cancel_search(search_id, principal=principal)
    except RunEnded as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(back_to(request, reverse("triage")))


urlpatterns = [
    path("triage/searches/", begin, name="triage-search"),
    path("triage/searches/<int:search_id>/", live, name="triage-searching"),
    path("triage/searches/<int:search_id>/cancel/", cancel, name="triage-search-cancel"),
]
