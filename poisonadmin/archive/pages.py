"""The page Archive: runs, archived messages, legal holds and erasures."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from poisonadmin.archive.commands.erasing import MOST_COUNTED, count_erasable, request_erasure
from poisonadmin.archive.commands.holds import hold, lift
from poisonadmin.archive.commands.requests import cancel_archive_run, request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import archive_size, list_erasures, list_holds, list_runs
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter, moment
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import list_archived
from poisonadmin.web.pages.views import NO_REASON, Section, SidebarEntry, page, pager, reason_of

MOST_DIGITS = 12
SHOWN = 20


@page(filters=(), sidebar=SidebarEntry(Section.INSIGHTS, 20, "Archive", "stack-2", "h"), topic="operate/archive")
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the runs, and for administrators legal holds and erasures; who is limited to addresses sees none."""
    if not principal.sees_everything:
        return render(request, "archive/limited.html")
    found = list_runs(principal=principal, cursor=request.GET.get("cursor"), limit=SHOWN)
    context: dict[str, Any] = {
        "today": timezone.now(),
        "size": archive_size(principal=principal),
        "rows": found.results,
        "pager": pager(request, found),
    }
    if principal.may(Permission.CONFIGURE):
        context["holds"] = [(row, _words(row.filter)) for row in list_holds(principal=principal, limit=SHOWN).results]
        context["erasures"] = list_erasures(principal=principal, limit=SHOWN).results
    return render(request, "archive/archive.html", context)


@page(filters=("q",), topic="operate/archive#finding-and-restoring")
def find(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the archived messages that a search finds."""
    asked = request.GET.get("q", "")
    context: dict[str, Any] = {"search_text": asked}
    try:
        parsed = parse_filter({"q": [asked]} if asked else {})
        found = list_archived(parsed, principal=principal, cursor=request.GET.get("cursor"))
    except InvalidFilter as error:
        return render(request, "archive/messages.html", context | {"problem": error}, status=error.status)
    return render(request, "archive/messages.html", context | {"rows": found.results, "pager": pager(request, found)})


@require_POST
@page(Permission.DECIDE)
def restore_message(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Make an archived message live again."""
    target = reverse("messages-one", args=[message_id])
    return _done(
        request,
        lambda reason: restore_from_archive(message_id, reason=reason, principal=principal),
        "The message is restored. It waits for a decision.",
        target,
    )


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def run(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Have the archive run, or count what it would archive on a day."""
    try:
        day = moment("day", f"{request.POST['day']}T00:00:00Z") if "dry_run" in request.POST else None
    except (InvalidFilter, KeyError):
        notes.error(request, "The day is to be a date such as 2026-01-31.")
        return HttpResponseRedirect(reverse("archive"))
    # Today is now, and not last midnight.
    as_of = day if day and day > timezone.now() else None
    made = request_archive_run(as_of=as_of, is_dry_run=day is not None, principal=principal)
    notes.success(request, f"Run {made.id} is under way; this page shows how far it is.")
    return HttpResponseRedirect(reverse("archive"))


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def cancel(request: HttpRequest, principal: Principal, run_id: int) -> HttpResponseBase:
    """Have a run stop."""
    try:
        cancel_archive_run(run_id, principal=principal)
    except PoisonAdminError as error:
        notes.error(request, error.detail)
    else:
        notes.success(request, f"Run {run_id} stops behind its present piece.")
    return HttpResponseRedirect(reverse("archive"))


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def hold_matching(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Hold what a search finds, now and later."""
    return _done(
        request,
        lambda reason: hold(_typed(request), reason=reason, principal=principal),
        "The legal hold is in force.",
        reverse("archive"),
    )


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def lift_hold(request: HttpRequest, principal: Principal, hold_id: int) -> HttpResponseBase:
    """Lift a legal hold."""
    return _done(
        request,
        lambda reason: lift(hold_id, reason=reason, principal=principal),
        "The legal hold is lifted.",
        reverse("archive"),
    )


@require_POST
@page(Permission.CONFIGURE, is_for_all=True, topic="operate/archive#erasing")
def preview_erasure(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render how much a search finds. It may name a person, so it is in no URL."""
    given = _typed(request)
    try:
        found = count_erasable(given, principal=principal)
        context = {"search_text": given["q"][0], "found": found, "most": MOST_COUNTED}
    except PoisonAdminError as error:
        notes.error(request, error.detail)
        return HttpResponseRedirect(reverse("archive"))
    return render(request, "archive/erasure.html", context)


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def erase(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Have what a search finds erased."""
    count = request.POST.get("count", "").replace(",", "").strip()
    if not (count.isascii() and count.isdecimal() and len(count) < MOST_DIGITS):
        notes.error(request, "Type how many messages will be erased, as the preview says; nothing was erased.")
        return HttpResponseRedirect(reverse("archive"))
    return _done(
        request,
        lambda reason: request_erasure(_typed(request), reason=reason, principal=principal, expected=int(count)),
        "The erasure is under way; this page shows how far it is.",
        reverse("archive"),
    )


def _typed(request: HttpRequest) -> dict[str, list[str]]:
    text = request.POST.get("q", "").strip()
    return {"q": [text]} if text else {}


def _words(given: Any) -> str:
    return " ".join(text if name == "q" else f"{name}:{text}" for name, texts in given.items() for text in texts)


def _done(request: HttpRequest, act: Callable[[str], object], words: str, target: str) -> HttpResponseBase:
    reason = reason_of(request)
    if not reason:
        notes.error(request, NO_REASON)
        return HttpResponseRedirect(target)
    try:
        act(reason)
    except PoisonAdminError as error:
        if error.status in (403, 404):
            raise
        notes.error(request, error.detail)
    else:
        notes.success(request, words)
    return HttpResponseRedirect(target)


urlpatterns = [
    path("archive/", show, name="archive"),
    path("archive/messages/", find, name="archive-messages"),
    path("archive/messages/<int:message_id>/restore/", restore_message, name="archive-restore"),
    path("archive/run/", run, name="archive-run"),
    path("archive/runs/<int:run_id>/cancel/", cancel, name="archive-cancel"),
    path("archive/holds/", hold_matching, name="archive-hold"),
    path("archive/holds/<int:hold_id>/lift/", lift_hold, name="archive-lift"),
    path("archive/erasures/", erase, name="archive-erase"),
    path("archive/erasures/preview/", preview_erasure, name="archive-erase-preview"),
]
