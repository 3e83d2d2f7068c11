"""The poison list: which bookmarks consumers skip, since when and why; releasing them."""

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter, checked_text
from poisonadmin.core.domain.sanitising import clipped, visible
from poisonadmin.decisions.operations.commands.releases import action_of, release_bookmark
from poisonadmin.decisions.sign_offs.queries import limits_of, sign_off_needed
from poisonadmin.poison_list.queries.entries import (
    EntryRow,
    get_entry,
    list_consumers,
    list_entries,
    list_poison_sources,
    stopped_messages,
)
from poisonadmin.web.pages.views import (
    MAX_REASON_CHARS,
    Section,
    SidebarEntry,
    back_to,
    dialog,
    led_to,
    page,
    pager,
    reason_of,
)
from poisonadmin.web.pages.words import SIGN_OFF_NEEDED

SHOWS: dict[str, tuple[str, dict[str, bool]]] = {
    "listed": ("Listed", {"listed": True}),
    "counting": ("Counting", {"listed": False, "released": False}),
    "released": ("Released", {"listed": False, "released": True}),
    "all": ("All", {}),
}
SHOWN_CONSUMERS = 50


@page(
    filters=("source", "show"),
    sidebar=SidebarEntry(Section.FLOWS, 60, "Poison list", "playlist-x", "l"),
    topic="use/poison-list",
)
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the entries, newest first, the sources, and the consumers of the one that is chosen."""
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
    return render(request, "poison_list/poison_list.html", context)


@require_POST
@page(Permission.DECIDE)
def ask(request: HttpRequest, principal: Principal, entry_id: int) -> HttpResponseBase:
    """Ask why the entry is to be released. Nothing is changed."""
    return _dialog(request, principal, get_entry(entry_id, principal=principal))


@require_POST
@page(Permission.DECIDE)
def carry_out(request: HttpRequest, principal: Principal, entry_id: int) -> HttpResponseBase:
    """Release the entry."""
    entry = get_entry(entry_id, principal=principal)
    reason = reason_of(request)
    if not reason:
        return _dialog(request, principal, entry, "Enter a reason; it is kept with the entry.", 422)
    awaits = release_bookmark(entry_id, principal=principal, reason=reason)
    if awaits is None:
        name = clipped(visible(entry.bookmark), 80)
        notes.success(request, f"{name} is released. Every consumer of its source handles it again from now on.")
        back = back_to(request, reverse("poison_list"))
    else:
        notes.warning(request, SIGN_OFF_NEEDED)
        back = reverse("operations-one", args=[awaits])
    return led_to(request, back)


def _dialog(
    request: HttpRequest, principal: Principal, entry: EntryRow, error: str = "", status: int = 200
) -> HttpResponseBase:
    action, stopped = action_of(entry), stopped_messages(entry.id)
    context = {
        "entry": entry,
        "sign_off": sign_off_needed(limits_of(action), action, principal=principal, count=len(stopped), ids=stopped),
        "error": error,
        "max_reason": MAX_REASON_CHARS,
        "back": back_to(request, reverse("poison_list")),
    }
    title = f"Release {clipped(visible(entry.bookmark), 80)}"
    return dialog(request, "poison_list/_poison_release.html", title, context, status)


urlpatterns = [
    path("poison-list/", show, name="poison_list"),
    path("poison-list/<int:entry_id>/release/", ask, name="poison_list-ask"),
    path("poison-list/<int:entry_id>/release/now/", carry_out, name="poison_list-release"),
]
