"""The poison list: which bookmarks consumers skip, since when and why; releasing them."""

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from poisonadmin.dashboard.gate import page
from poisonadmin.dashboard.hostile import clipped, visible
from poisonadmin.dashboard.links import back_to, pager, require_known, tidied
from poisonadmin.domain.access import Permission, Principal
from poisonadmin.operations.poison_list import release
from poisonadmin.queries.consumers import list_consumers
from poisonadmin.queries.filter_fields import InvalidFilter, checked_text
from poisonadmin.queries.poison_list import EntryRow, get_entry, list_entries
from poisonadmin.queries.poison_sources import list_poison_sources

SHOWS: dict[str, tuple[str, dict[str, bool]]] = {
    "listed": ("Listed", {"listed": True}),
    "counting": ("Not yet", {"listed": False, "released": False}),
    "released": ("Released", {"listed": False, "released": True}),
    "all": ("All", {}),
}
MAX_REASON_CHARS = 2000
SHOWN_CONSUMERS = 50


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the entries, newest first, the sources, and the consumers of the one that is chosen."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "source", "show")
    chosen = request.GET.get("show", "listed")
    if chosen not in SHOWS:
        raise InvalidFilter("show", f"show is one of {', '.join(SHOWS)}.")
    source = checked_text("source", request.GET["source"]) if "source" in request.GET else None
    found = list_entries(principal=principal, source=source, cursor=request.GET.get("cursor"), **SHOWS[chosen][1])
    consumers = list_consumers(principal=principal, source=source, limit=SHOWN_CONSUMERS).results if source else []
    sources = list_poison_sources(principal=principal)
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "sources": sources,
        "source": source,
        "shows": [(key, label) for key, (label, _) in SHOWS.items()],
        "chosen": chosen,
        "consumers": consumers,
        "listed": sum(row.listed for row in sources if source in (None, row.name)),
        "limited": not principal.sees_everything,
    }
    return render(request, "pages/poison_list.html", context)


@require_POST
@page(Permission.DECIDE)
def ask(request: HttpRequest, principal: Principal, entry_id: int) -> HttpResponseBase:
    """Ask why the entry is to be released. Nothing is changed."""
    return _dialog(request, get_entry(entry_id, principal=principal))


@require_POST
@page(Permission.DECIDE)
def carry_out(request: HttpRequest, principal: Principal, entry_id: int) -> HttpResponseBase:
    """Release the entry."""
    entry = get_entry(entry_id, principal=principal)
    reason = request.POST.get("reason", "").replace("\x00", "").strip()[:MAX_REASON_CHARS]
    if not reason:
        return _dialog(request, entry, "Say why; it is kept with the entry.", 422)
    release(entry_id, principal=principal, reason=reason)
    name = clipped(visible(entry.bookmark), 80)
    notes.success(request, f"{name} is released. Every consumer of its source handles it again from now on.")
    back = back_to(request, reverse("poison_list"))
    return HttpResponseClientRedirect(back) if request.htmx else HttpResponseRedirect(back)  # type: ignore[attr-defined]


def _dialog(request: HttpRequest, entry: EntryRow, error: str = "", status: int = 200) -> HttpResponseBase:
    context = {
        "entry": entry,
        "error": error,
        "max_reason": MAX_REASON_CHARS,
        "back": back_to(request, reverse("poison_list")),
    }
    template = "parts/poison_release.html" if request.htmx else "pages/poison_release.html"  # type: ignore[attr-defined]
    return render(request, template, context, status=status)
