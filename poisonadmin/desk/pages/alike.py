"""The page of failure groups that look alike: proposals with what differs side by side, merged by one click."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.groups.alike import commands as alike_groups
from poisonadmin.groups.alike.domain.differences import FramePair, MarkedText, frame_pairs, marked_words
from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.groups.alike.queries import ProposalRow, get_proposal, latest_search, list_proposals
from poisonadmin.web.pages.views import back_to, page, pager

SHOWN = 20


@dataclass(frozen=True)
class ShownProposal:
    """A proposal as the page shows it: `percent` alike, its frames and messages side by side."""

    row: ProposalRow
    percent: int
    frames: Sequence[FramePair]
    messages: tuple[Sequence[MarkedText], Sequence[MarkedText]]

    @property
    def sentences(self) -> list[tuple[str, bool]]:
        """The proposal's text in pieces, each with whether it is code."""
        return [(piece, at % 2 == 1) for at, piece in enumerate(self.row.text.split("`"))]

    @property
    def differs_in_words(self) -> bool:
        """True where one message has words that the other has not."""
        return any(not part.is_same for words in self.messages for part in words)


@page(filters=("dismissed",), topic="use/dashboard#groups-that-look-alike")
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the proposals, or those that were dismissed; refreshes by itself while a search is under way."""
    search = latest_search(principal=principal)
    is_live = request.htmx  # type: ignore[attr-defined]
    if is_live and (search is None or search.is_over):
        return HttpResponseClientRefresh()
    if is_live:
        return render(request, "runs/_progress.html", {"run": search, "title": "Searching"})
    is_dismissed = "dismissed" in request.GET
    state = ProposalState.DISMISSED if is_dismissed else ProposalState.OPEN
    found = list_proposals(state, principal=principal, cursor=request.GET.get("cursor"), limit=SHOWN)
    context = {
        "search": search,
        "proposals": [_shown(row) for row in found.results],
        "pager": pager(request, found),
        "is_dismissed": is_dismissed,
        "may_merge": principal.may(Permission.DECIDE) and principal.sees_everything,
    }
    return render(request, "alike_groups/proposals.html", context)


def _shown(row: ProposalRow) -> ShownProposal:
    into, group = row.into.failure, row.group.failure
    return ShownProposal(row, int(100 * row.similarity), frame_pairs(into, group), marked_words(into, group))


@require_POST
@page(Permission.DECIDE)
def search(_: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Have groups that look alike searched for."""
    if not principal.sees_everything:
        raise NotFound("Only accounts that see every address search for groups that look alike.")
    alike_groups.request_search(principal=principal)
    return HttpResponseRedirect(reverse("groups-alike"))


@require_POST
@page(Permission.DECIDE)
def cancel(request: HttpRequest, principal: Principal, alike_search_id: int) -> HttpResponseBase:
    """Cancel a search, and show the proposals that there are; one that has ended by now is shown, too."""
    if not principal.sees_everything:
        raise NotFound("Only accounts that see every address search for groups that look alike, and merge them.")
    try:
        alike_groups.cancel_search(alike_search_id, principal=principal)
        notes.success(request, "The search is cancelled; the proposals are those of the search before.")
    except NotFound:
        raise
    except PoisonAdminError as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(reverse("groups-alike"))


@require_POST
@page(Permission.DECIDE)
def merge(request: HttpRequest, principal: Principal, proposal_id: int) -> HttpResponseBase:
    """Merge the groups of a proposal."""
    words = "Group {0.group.id} is merged into group {0.into.id}; the page of that one splits it off again."
    return _done(request, principal, proposal_id, alike_groups.merge_by, words)


@require_POST
@page(Permission.DECIDE)
def dismiss(request: HttpRequest, principal: Principal, proposal_id: int) -> HttpResponseBase:
    """Dismiss a proposal."""
    words = "The proposal is dismissed; it is among the dismissed ones."
    return _done(request, principal, proposal_id, alike_groups.dismiss, words)


@require_POST
@page(Permission.DECIDE)
def propose_again(request: HttpRequest, principal: Principal, proposal_id: int) -> HttpResponseBase:
    """Make a dismissed proposal again."""
    return _done(request, principal, proposal_id, alike_groups.propose_again, "The proposal is made again.")


def _done(
    request: HttpRequest, principal: Principal, proposal_id: int, act: Callable[..., Any], words: str
) -> HttpResponseBase:
    """Act on the proposal, and say so; `{0}` in the words is what that returns."""
    get_proposal(proposal_id, principal=principal)
    try:
        notes.success(request, words.format(act(proposal_id, principal=principal)))
    except PoisonAdminError as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(back_to(request, reverse("groups-alike")))


urlpatterns = [
    path("groups/alike/", show, name="groups-alike"),
    path("groups/alike/search/", search, name="groups-alike-search"),
    path("groups/alike/searches/<int:alike_search_id>/cancel/", cancel, name="groups-alike-cancel"),
    path("groups/alike/<int:proposal_id>/merge/", merge, name="groups-alike-merge"),
    path("groups/alike/<int:proposal_id>/dismiss/", dismiss, name="groups-alike-dismiss"),
    path("groups/alike/<int:proposal_id>/again/", propose_again, name="groups-alike-again"),
]
