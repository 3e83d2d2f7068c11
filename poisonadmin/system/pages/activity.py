"""The processes that deliver, and the audit log."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import InvalidFilter, checked_text, moment
from poisonadmin.poison_list.queries.entries import list_consumers
from poisonadmin.system.queries.audit import AuditFilter, audit_sealed, list_audit
from poisonadmin.system.queries.nodes import get_node, list_nodes
from poisonadmin.web.pages.views import Pairs, Section, SidebarEntry, href, page, pager, pairs, require_known

_TEXTS = ("actor", "action", "object_type", "object_id")
_TIMES = ("after", "before")
SHOWS = {"alive": "Alive", "lost": "Lost", "all": "All"}
# The heading of the column with the messages of a node, by which nodes are shown.
HELD = {"alive": "Delivers now", "lost": "Was delivering", "all": "Delivers, or was delivering"}


@page(
    filters=(*_TEXTS, *_TIMES),
    sidebar=SidebarEntry(Section.SYSTEM, 50, "Audit", "book", "u"),
    topic="operate/production#audit-log",
)
def audit(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render who did what, newest first."""
    given: dict[str, Any] = {name: checked_text(name, request.GET[name]) for name in _TEXTS if name in request.GET}
    given |= {name: moment(name, request.GET[name]) for name in _TIMES if name in request.GET}
    only = AuditFilter(**given)
    found = list_audit(only, principal=principal, cursor=request.GET.get("cursor"))
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "values": request.GET.dict(),
        "filtered": only != AuditFilter(),
        "sealed": audit_sealed(principal=principal),
        "limited": not principal.sees_everything,
    }
    return render(request, "system/audit.html", context)


@page(sidebar=SidebarEntry(Section.SYSTEM, 10, "Workers", "server", "n"), topic="use/dashboard#workers-and-jobs")
def nodes(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render nodes, newest first, and consumers by name; the living ones unless others are asked for."""
    require_known(request, "show", "consumers")
    chosen = request.GET.get("show", "alive")
    if chosen not in SHOWS:
        raise InvalidFilter("show", f"show is one of {', '.join(SHOWS)}.")
    alive = True if chosen == "alive" else None
    lost = True if chosen == "lost" else None
    found = list_nodes(principal=principal, alive=alive, lost=lost, cursor=request.GET.get("cursor"))
    consumers = list_consumers(principal=principal, alive=alive, lost=lost, cursor=request.GET.get("consumers"))
    latest = None if found.results else next(iter(list_nodes(principal=principal, limit=1).results), None)
    context = {
        "shows": list(SHOWS.items()),
        "chosen": chosen,
        "held": HELD[chosen],
        "rows": found.results,
        "pager": pager(request, found),
        "consumers": consumers.results,
        "next_consumers": _with_consumers(request, consumers.next),
        "previous_consumers": _with_consumers(request, consumers.previous),
        "latest": latest,
        "limited": not principal.sees_everything,
    }
    return render(request, "system/nodes_live.html" if request.htmx else "system/nodes.html", context)  # type: ignore[attr-defined]


@page()
def node(request: HttpRequest, principal: Principal, node_id: int) -> HttpResponseBase:
    """Render one node: what it holds, what it had begun when it was lost, the crashes that it saw."""
    require_known(request)
    found = get_node(node_id, principal=principal)
    return render(request, "system/node.html", {"found": found, "node": found.node})


def _with_consumers(request: HttpRequest, cursor: str | None) -> str | None:
    kept: Pairs = [(name, value) for name, value in pairs(request) if name != "consumers"]
    return href(request.path, [*kept, ("consumers", cursor)]) if cursor else None


urlpatterns = [
    path("nodes/", nodes, name="nodes"),
    path("nodes/<int:node_id>/", node, name="nodes-one"),
    path("audit/", audit, name="audit"),
]
