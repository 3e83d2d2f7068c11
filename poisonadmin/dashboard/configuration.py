"""Destinations and sources, as they are set up and how they do."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.dashboard.gate import page
from poisonadmin.dashboard.links import pager, require_known
from poisonadmin.dashboard.streams import download
from poisonadmin.domain import destinations as http
from poisonadmin.domain import handler_config as handler
from poisonadmin.domain.access import Permission, Principal
from poisonadmin.queries.destinations import get_destination, list_destinations
from poisonadmin.queries.sources import get_source, list_files, list_rejected, list_sources, rejected_raw
from poisonadmin.queries.triage import addresses_of
from poisonadmin.store.models.destination import DestinationKind

_DEFAULTS = {DestinationKind.HTTP: http.DEFAULTS, DestinationKind.HANDLER: handler.DEFAULTS}


@page()
def destinations(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list of destinations by name."""
    require_known(request)
    found = list_destinations(principal=principal, cursor=request.GET.get("cursor"))
    return render(request, "pages/destinations.html", {"rows": found.results, "pager": pager(request, found)})


@page()
def destination(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render one destination; of its secrets only the names."""
    require_known(request, "name")
    found = get_destination(request.GET.get("name", ""), principal=principal)
    defaults = _DEFAULTS[DestinationKind(found.kind)]
    settings = {name: found.config.get(name, default) for name, default in defaults.items() if name != "headers"}
    context = {
        "destination": found,
        "settings": settings,
        "headers": sorted(dict(found.config.get("headers", {})).items()),
        "addresses": addresses_of(found.id, principal=principal),
    }
    return render(request, "pages/destination.html", context)


@page()
def sources(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list of sources, and what the batch API set aside."""
    require_known(request)
    found = list_sources(principal=principal, cursor=request.GET.get("cursor"))
    batch = list_rejected(None, principal=principal, limit=1) if principal.may(Permission.READ_PAYLOAD) else None
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "batch_rejects": bool(batch and batch.results),
        "limited": not principal.sees_everything,
    }
    return render(request, "pages/sources.html", context)


@page()
def source(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Render one source and its files."""
    require_known(request)
    found = list_files(source_id, principal=principal, cursor=request.GET.get("cursor"))
    context = {
        "source": get_source(source_id, principal=principal),
        "rows": found.results,
        "pager": pager(request, found),
    }
    return render(request, "pages/source.html", context)


@page(Permission.READ_PAYLOAD)
def rejected(request: HttpRequest, principal: Principal, source_id: int | None = None) -> HttpResponseBase:
    """Render the lines that were set aside, of a source or of the batch API."""
    require_known(request)
    found = list_rejected(source_id, principal=principal, cursor=request.GET.get("cursor"))
    context = {
        "source": None if source_id is None else get_source(source_id, principal=principal),
        "rows": found.results,
        "pager": pager(request, found),
    }
    return render(request, "pages/rejected.html", context)


@page(Permission.READ_PAYLOAD)
def rejected_line(request: HttpRequest, principal: Principal, rejected_id: int) -> HttpResponseBase:
    """Answer with all the bytes of one line, as a file."""
    return download(request, rejected_raw(rejected_id, principal=principal), f"line-{rejected_id}.bin")
