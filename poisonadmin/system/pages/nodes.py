"""What delivers: nodes, and consumers that run the guard; alive, lost, and what each was delivering."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.poison_list.queries.consumers import list_consumers
from poisonadmin.system.queries.nodes import get_node, list_nodes
from poisonadmin.web.pages.links import Pairs, href, pager, pairs, require_known
from poisonadmin.web.pages.permissions import page

SHOWS = {"alive": "Alive", "lost": "Lost", "all": "All"}


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
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
def show(request: HttpRequest, principal: Principal, node_id: int) -> HttpResponseBase:
    """Render one node: what it holds, what it had begun when it was lost, the crashes that it saw."""
    require_known(request)
    found = get_node(node_id, principal=principal)
    return render(request, "system/node.html", {"found": found, "node": found.node})


def _with_consumers(request: HttpRequest, cursor: str | None) -> str | None:
    kept: Pairs = [(name, value) for name, value in pairs(request) if name != "consumers"]
    return href(request.path, [*kept, ("consumers", cursor)]) if cursor else None
