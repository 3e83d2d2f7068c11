"""Addresses: their messages, policy and destination; pausing and resuming them."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.addresses import commands
from poisonadmin.addresses.queries import AddressRow, get_address, list_addresses
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import address_or_pattern as checked_pattern
from poisonadmin.core.domain.filter_values import number
from poisonadmin.core.domain.sanitising import clipped, visible
from poisonadmin.decisions.operations.commands.releases import resume_without
from poisonadmin.desk.pages.opened_from import latest_messages
from poisonadmin.destinations.queries import list_destinations
from poisonadmin.policies.commands import save_policy
from poisonadmin.policies.domain.resolution import DESTINATION, values_in_force
from poisonadmin.policies.queries import find_policy, list_policies
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import total
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.pages.views import (
    MAX_REASON_CHARS,
    Section,
    SidebarEntry,
    dialog,
    href,
    led_to,
    page,
    pager,
    reason_of,
    require_known,
)
from poisonadmin.web.pages.words import SIGN_OFF_NEEDED

MAX_DESTINATIONS = 500


@page(
    filters=("match", "status"),
    sidebar=SidebarEntry(Section.FLOWS, 10, "Addresses", "route", "a"),
    topic="use/dashboard#addresses-policies-destinations",
)
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
    """Render one address: its messages, status, policies and destination, and where each value comes from."""
    require_known(request, "name")
    address = get_address(request.GET.get("name", ""), principal=principal)
    context = {
        "address": address,
        "values": values_in_force(address.in_force),
        **_setup(address, principal),
        **latest_messages("address", address.name, address.counts, principal),
        "elsewhere": total(parse_filter({"original_address": [address.name]}), principal=principal),
    }
    return render(request, "addresses/address.html", context)


def _setup(address: AddressRow, principal: Principal) -> dict[str, Any]:
    """Return the policies that apply, by their pattern alone where out of scope, and destinations to choose from."""
    known = {row.match: row for row in list_policies(principal=principal)}
    own = known.get(address.name)
    names = {row.name for row in list_destinations(principal=principal, limit=MAX_DESTINATIONS).results}
    chosen = own.destination if own else None
    named_by = address.in_force.origins.get(DESTINATION)
    return {
        "applying": [(pattern, known.get(pattern)) for pattern in address.patterns],
        "own": own,
        "destination_by": named_by.pattern if named_by else None,
        "chosen": chosen,
        "destinations": sorted({*names, *([chosen] if chosen else [])}),
        "may_set_up": principal.may(Permission.CONFIGURE) and principal.covers(address.name),
    }


@require_POST
@page(Permission.CONFIGURE)
def deliver_to(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Name the destination in the policy of this address alone, which is made where there is none."""
    name = get_address(request.POST.get("name", ""), principal=principal).name
    own = find_policy(name)
    chosen = request.POST.get("destination") or None
    try:
        save_policy(
            name,
            preset=own.preset if own else None,
            settings=own.settings if own else {},
            destination=chosen,
            principal=principal,
            expected_version=number("version", request.POST.get("version", "")),
        )
        where = f"delivers to {chosen}" if chosen else "delivers to where the other policies say"
        notes.success(request, f"{name} {where}.")
    except PoisonAdminError as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(href(reverse("addresses-one"), [("name", name)]))


@require_POST
@page(Permission.PAUSE)
def pause(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Pause the address."""
    name = request.POST.get("name", "")
    commands.pause(name, principal=principal, reason=reason_of(request))
    notes.success(request, f"{name} is paused. Deliveries under way end normally; new messages wait.")
    return HttpResponseRedirect(href(reverse("addresses-one"), [("name", name)]))


@require_POST
@page(Permission.PAUSE)
def ask_to_resume(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Ask why the address is to be resumed. Nothing is changed."""
    return _dialog(request, get_address(request.POST.get("name", ""), principal=principal))


@require_POST
@page(Permission.PAUSE)
def resume(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Resume the address."""
    name = request.POST.get("name", "")
    reason = reason_of(request)
    if not reason:
        return _dialog(request, get_address(name, principal=principal), "Enter a reason; it is shown here.", 422)
    awaits = _resume(request, name, principal, reason)
    if awaits is not None:
        return led_to(request, reverse("operations-one", args=[awaits]))
    return led_to(request, href(reverse("addresses-one"), [("name", name)]))


def _resume(request: HttpRequest, name: str, principal: Principal, reason: str) -> int | None:
    """Resume the address and say so; return the operation that waits for a sign-off first, None where none does."""
    culprit = _quarantined(request)
    if culprit is None:
        commands.resume(name, principal=principal, reason=reason)
        notes.success(request, f"{name} delivers again.")
        return None
    awaits = resume_without(name, culprit, principal=principal, reason=reason)
    if awaits is None:
        notes.success(request, f"{name} delivers again. Message #{culprit} is quarantined, and waits for a decision.")
    else:
        notes.warning(request, f"{SIGN_OFF_NEEDED} Resume {name} once message #{culprit} is quarantined.")
    return awaits


def _quarantined(request: HttpRequest) -> int | None:
    """Return the message that is to be left behind when the address is resumed."""
    text = request.POST.get("quarantine", "")
    return number("quarantine", text) if text else None


def _dialog(request: HttpRequest, address: AddressRow, error: str = "", status: int = 200) -> HttpResponseBase:
    context = {
        "name": address.name,
        "error": error,
        "max_reason": MAX_REASON_CHARS,
        "culprit": address.status_message_id,
        "quarantine": _quarantined(request) is not None,
    }
    return dialog(request, "addresses/_resume.html", f"Resume {clipped(visible(address.name), 80)}", context, status)


urlpatterns = [
    path("addresses/", show_all, name="addresses"),
    path("addresses/one/", show, name="addresses-one"),
    path("addresses/one/destination/", deliver_to, name="addresses-destination"),
    path("addresses/one/pause/", pause, name="addresses-pause"),
    path("addresses/one/resume/", ask_to_resume, name="addresses-ask-resume"),
    path("addresses/one/resume/now/", resume, name="addresses-resume"),
]
