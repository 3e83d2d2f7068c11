"""What every page shows around its content."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from poisonadmin.core.domain.access import Permission
from poisonadmin.system.queries.overview import undecided_count
from poisonadmin.web.pages.errors import request_id
from poisonadmin.web.pages.navigation import sections_for


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
        "undecided": None if getattr(request, "htmx", False) else undecided_count(principal),
    }


def _section(request: HttpRequest) -> str:
    match = request.resolver_match
    return (match.url_name or "").split("-")[0] if match else ""
