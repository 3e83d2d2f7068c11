"""What every page shows around its content."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from poisonadmin.alerts.queries.rules import failing_rules
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.decisions.sign_offs.queries.awaited import begun_without_count, waiting_count
from poisonadmin.system.queries.overview import undecided_count
from poisonadmin.web.pages.errors import request_id
from poisonadmin.web.pages.sidebar import SidebarEntry, sections


def sections_for(principal: Principal) -> list[tuple[str, list[SidebarEntry]]]:
    """Return the sections with the entries that the principal may open."""
    return [(title, [entry for entry in entries if principal.may(entry.permission)]) for title, entries in sections()]


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return the environment's name and, for a page behind the gate, who reads it and where they may go."""
    shown = {"environment_name": settings.ENVIRONMENT_NAME, "request_id": request_id()}
    principal = getattr(request, "principal", None)
    if principal is None:
        return shown
    return shown | {
        "principal": principal,
        "sections": sections_for(principal),
        "current_route": _section(request),
        "may_decide": principal.may(Permission.DECIDE),
        "may_ingest": principal.may(Permission.INGEST),
        "may_pause": principal.may(Permission.PAUSE),
        "may_configure": principal.may(Permission.CONFIGURE),
        "may_export": principal.may(Permission.EXPORT),
        # A badge is not worth a page that fails: fragments do not draw it.
        "failing_alerts": None if getattr(request, "htmx", False) else failing_rules(principal),
        "undecided": None if getattr(request, "htmx", False) else undecided_count(principal),
        "sign_offs_waiting": None if getattr(request, "htmx", False) else waiting_count(principal),
        "begun_without": None if getattr(request, "htmx", False) else begun_without_count(principal),
    }


def _section(request: HttpRequest) -> str:
    match = request.resolver_match
    first = (match.url_name or "").split("-")[0] if match else ""
    entries = (entry for _, entries in sections() for entry in entries)
    return next((entry.route for entry in entries if first in entry.also), first)
