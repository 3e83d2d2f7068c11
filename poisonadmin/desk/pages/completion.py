"""Completions of the last word in the search box."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from poisonadmin.addresses.queries import names_holding
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import checked_text
from poisonadmin.messages.domain.states import Confirming, Reason, State
from poisonadmin.search.domain.filters import FIELDS, SPANS
from poisonadmin.search.queries.owners import NOBODY, owners_beginning, tags_beginning
from poisonadmin.web.pages.views import page

SHOWN = 12
_WORDS: dict[str, Sequence[str]] = {
    "state": tuple(State),
    "reason": tuple(Reason),
    "confirmation": tuple(Confirming),
    "candidate": ("true", "false"),
    "failed": ("1h", "24h", "7d"),
    "received": ("1h", "24h", "7d"),
}
_ADDRESSES = ("address", "original_address")


@page(filters=("q",))
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the texts that the search box can be completed to, for its list of options."""
    before, space, word = checked_text("q", request.GET.get("q", "")).rpartition(" ")
    negated = "!" if word.startswith("!") else ""
    options = [f"{before}{space}{negated}{one}" for one in _completed(word.removeprefix("!"), principal)[:SHOWN]]
    return render(request, "messages/_completions.html", {"options": options})


def _completed(word: str, principal: Principal) -> list[str]:
    field, colon, start = word.partition(":")
    if not colon:
        return [f"{name}:" for name in sorted({*FIELDS, *SPANS, "attempts"}) if word and name.startswith(word)]
    if field in _ADDRESSES:
        return [f"{field}:{name}" for name in names_holding(start, principal=principal, limit=SHOWN) if " " not in name]
    if field == "owner":
        names = owners_beginning(start, principal=principal, limit=SHOWN)
        return [f"{field}:{name}" for name in (NOBODY, *names) if name.startswith(start) and " " not in name]
    if field == "tag":
        tags = tags_beginning(start, principal=principal, limit=SHOWN)
        return [f"{field}:{tag}" for tag in tags if " " not in tag]
    return [f"{field}:{value}" for value in _WORDS.get(field, ()) if value.lower().startswith(start.lower())]


urlpatterns = [
    path("triage/completions/", show, name="triage-completions"),
]
