"""Addresses: where they deliver, whether they do; pausing and resuming them."""

from urllib.parse import urlencode

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from poisonadmin.addresses import commands as operations
from poisonadmin.addresses.queries import AddressRow, get_address, list_addresses
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.filter_values import address_or_pattern as checked_pattern
from poisonadmin.core.queries.filter_values import number
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.lists import list_messages, total
from poisonadmin.policies.queries.values import values_in_force
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.pages.views import href, page, pager, require_known

SHOWN_MESSAGES = 10
MAX_REASON_CHARS = 2000


@page(filters=("match", "status"))
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list by name."""
    patterns = [checked_pattern("match", text) for text in request.GET.getlist("match")]
    statuses = [text for text in request.GET.getlist("status") if text in set(AddressStatus)]
    found = list_addresses(principal=principal, patterns=patterns, statuses=statuses, cursor=request.GET.get("cursor"))
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "match": " ".join(patterns),
        "statuses": [(str(status), str(status) in statuses) for status in AddressStatus],
        "filtered": bool(patterns or statuses),
    }
    return render(request, "addresses/addresses.html", context)


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render one address: counts, status, the policy in force and where each value comes from."""
    require_known(request, "name")
    address = get_address(request.GET.get("name", ""), principal=principal)
    latest = list_messages(parse_filter({"address": [address.name]}), principal=principal, limit=SHOWN_MESSAGES)
    context = {
        "address": address,
        "counts": address.counts,
        "undecided_query": urlencode({"state": "NDLV", "address": address.name}),
        "narrowed": urlencode({"address": address.name}),
        "values": values_in_force(address.in_force),
        "rows": latest.results,
        "elsewhere": total(parse_filter({"original_address": [address.name]}), principal=principal),
    }
    return render(request, "addresses/address.html", context)


@require_POST
@page(Permission.PAUSE)
def ask(request: HttpRequest, principal: Principal, change: str) -> HttpResponseBase:
    """Ask why the address is to be paused or resumed. Nothing is changed."""
    address = get_address(request.POST.get("name", ""), principal=principal)
    return _dialog(request, address, change)


@require_POST
@page(Permission.PAUSE)
def carry_out(request: HttpRequest, principal: Principal, change: str) -> HttpResponseBase:
    """Pause or resume the address."""
    name = request.POST.get("name", "")
    reason = request.POST.get("reason", "").replace("\x00", "").strip()[:MAX_REASON_CHARS]
    if not reason:
        return _dialog(
            request, get_address(name, principal=principal), change, "Enter a reason; it is shown here.", 422
        )
    if change == "pause":
        operations.pause(name, principal=principal, reason=reason)
        notes.success(request, f"{name} is paused. Deliveries under way end normally; new messages wait.")
    else:
        culprit = _quarantined(request)
        operations.resume(name, principal=principal, reason=reason, quarantine=culprit)
        without = f" Message #{culprit} is quarantined, and waits for a decision." if culprit else ""
        notes.success(request, f"{name} delivers again.{without}")
    back = href(reverse("addresses-one"), [("name", name)])
    return HttpResponseClientRedirect(back) if request.htmx else HttpResponseRedirect(back)  # type: ignore[attr-defined]


def _quarantined(request: HttpRequest) -> int | None:
    """Return the message that is to be left behind when the address is resumed."""
    text = request.POST.get("quarantine", "")
    return number("quarantine", text) if text else None


def _dialog(
    request: HttpRequest, address: AddressRow, change: str, error: str = "", status: int = 200
) -> HttpResponseBase:
    context = {
        "name": address.name,
        "change": change,
        "error": error,
        "max_reason": MAX_REASON_CHARS,
        "culprit": address.status_message_id if change == "resume" else None,
        "quarantine": _quarantined(request) is not None,
    }
    template = "addresses/_address_change.html" if request.htmx else "addresses/address_change.html"  # type: ignore[attr-defined]
    return render(request, template, context, status=status)


urlpatterns = [
    path("addresses/", show_all, name="addresses"),
    path("addresses/one/", show, name="addresses-one"),
    path("addresses/one/pause/", ask, {"change": "pause"}, name="addresses-ask-pause"),
    path("addresses/one/resume/", ask, {"change": "resume"}, name="addresses-ask-resume"),
    path("addresses/one/pause/now/", carry_out, {"change": "pause"}, name="addresses-pause"),
    path("addresses/one/resume/now/", carry_out, {"change": "resume"}, name="addresses-resume"),
]
