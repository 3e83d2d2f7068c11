"""Completions of the last word in the search box."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from poisonadmin.addresses.queries import names_holding
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import checked_text
from poisonadmin.search.domain.words import ADDRESS, BYTES, JSON_VALUE, WORDS, word_of_box
from poisonadmin.search.queries.owners import NOBODY, owners_beginning, tags_beginning
from poisonadmin.web.pages.views import page

SHOWN = 12
_NAMES = sorted(
    word.name for word in WORDS if word.in_box and not word.is_named and word.kind not in (BYTES, JSON_VALUE)
)


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
        return [f"{name}:" for name in _NAMES if word and name.startswith(word)]
    asked = word_of_box(field)
    if asked is not None and asked.kind is ADDRESS:
        return [f"{field}:{name}" for name in names_holding(start, principal=principal, limit=SHOWN) if " " not in name]
    if field == "owner":
        names = owners_beginning(start, principal=principal, limit=SHOWN)
        return [f"{field}:{name}" for name in (NOBODY, *names) if name.startswith(start) and " " not in name]
    if field == "tag":
        tags = tags_beginning(start, principal=principal, limit=SHOWN)
        return [f"{field}:{tag}" for tag in tags if " " not in tag]
    examples = asked.kind.examples if asked else ()
    return [f"{field}:{value}" for value in examples if value.lower().startswith(start.lower())]


urlpatterns = [
    path("triage/completions/", show, name="triage-completions"),
]
