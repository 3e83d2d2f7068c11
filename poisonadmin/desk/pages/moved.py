"""Pages that are views of Triage now: their old URLs lead there."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import path, reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.desk.pages.crashed import NARROWED
from poisonadmin.web.pages.views import Pairs, href, page, pairs

# What the list of groups called the parameters of Triage.
_OF_GROUPS = {"error": "failure", "owner": "group_owner", "tag": "group_tag"}


@page()
def messages(request: HttpRequest, _: Principal) -> HttpResponseBase:
    """Lead to the same list of messages."""
    return _triage(pairs(request))


@page()
def failures(request: HttpRequest, _: Principal) -> HttpResponseBase:
    """Lead to the failures of the same messages."""
    return _triage([*_kept(request), ("group_by", "failures")])


@page()
def groups(request: HttpRequest, _: Principal) -> HttpResponseBase:
    """Lead to the same failure groups."""
    renamed = [(_OF_GROUPS.get(name, name), text) for name, text in _kept(request) if name != "snoozed"]
    snoozed = "true" if request.GET.get("snoozed") == "true" else "false"
    return _triage([("snoozed", snoozed), *renamed, ("group_by", "failure")])


@page()
def blacklist(request: HttpRequest, _: Principal) -> HttpResponseBase:
    """Lead to what crashed on the same addresses, which stood in one field."""
    words = [(name, word) for name, text in _kept(request) for word in text.split()]
    return _triage([*NARROWED, *words, ("group_by", "crashes")])


@page()
def bystanders(request: HttpRequest, _: Principal, message_id: int, attempt: int) -> HttpResponseBase:
    """Lead to the bystanders of the crash."""
    return HttpResponseRedirect(href(reverse("messages-bystanders", args=[message_id, attempt]), pairs(request)))


def _kept(request: HttpRequest) -> Pairs:
    # A cursor belongs to the list as it was.
    return [pair for pair in pairs(request) if pair[0] not in ("cursor", "part")]


def _triage(given: Pairs) -> HttpResponseBase:
    return HttpResponseRedirect(href(reverse("triage"), given))


urlpatterns = [
    path("messages/", messages, name="messages"),
    path("failures/", failures, name="failures"),
    path("groups/", groups, name="groups"),
    path("blacklist/", blacklist, name="blacklist"),
    path("blacklist/<int:message_id>/bystanders/<int:attempt>/", bystanders, name="blacklist-bystanders"),
]
