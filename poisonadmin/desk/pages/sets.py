"""Sets of what a filter finds: of messages that share a value, and of those with the same failure."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.groups.queries.grouping import GroupBy, Grouping, MessageSet, SetOrder, group_messages
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.web.pages.tables import Sort
from poisonadmin.web.pages.views import Pairs, href, pager
from poisonadmin.web.pages.words import reason_words

GROUP_ORDERINGS = {
    SetOrder.UNDECIDED: "-undecided",
    SetOrder.SIZE: "-messages",
    SetOrder.TREND: "-trend",
    SetOrder.LAST: "-last_at",
    SetOrder.FIRST: "-first_at",
    "failures": "-failures",
}
# Why there is no failure group, by the filter.
_EMPTY = {
    (): "no_failure",
    (("snoozed", "false"),): "no_failure",
    (("snoozed", "true"),): "nothing_snoozed",
}


@dataclass(frozen=True)
class ShownSet:
    """A set as the page names it. `link`: the list narrowed to it, None where no filter can say so."""

    row: MessageSet
    name: str
    link: str | None


def sets(
    request: HttpRequest, principal: Principal, message_filter: MessageFilter, *, by: str, kept: Pairs, title: str
) -> dict[str, Any]:
    """Return what the page shows of the sets that share a value; `title`: what they share."""
    order = request.GET.get("sort", SetOrder.UNDECIDED)
    grouping = group_messages(message_filter, by, principal=principal, order=order)
    return {
        "table": "messages/_set_table.html",
        "rows": [_shown(row, grouping, by, kept, request.path) for row in grouping.sets],
        "grouping": grouping,
        "parameter": grouping.parameter,
        "shared_by": title,
        "cut": grouping.cut,
        "peak": max((hour for row in grouping.sets for hour in row.trend), default=0),
        "sorts": _sorts(order, request.path, kept, by),
    }


def failure_groups(
    request: HttpRequest, principal: Principal, message_filter: MessageFilter, *, by: str, kept: Pairs
) -> dict[str, Any]:
    """Return what the page shows of the failure groups that have a message which matches."""
    order = request.GET.get("sort", SetOrder.UNDECIDED)
    if order not in GROUP_ORDERINGS:
        known = ", ".join(GROUP_ORDERINGS)
        raise InvalidFilter("sort", f"Failure groups are sorted by {known}, not by {order[:40]!r}.")
    cursor = request.GET.get("cursor")
    found = list_groups(message_filter, principal=principal, cursor=cursor, ordering=GROUP_ORDERINGS[order])
    return {
        "table": "messages/_group_table.html",
        "rows": found.results,
        "pager": pager(request, found),
        "parameter": "group",
        "why_empty": _EMPTY.get(message_filter.params),
        "cut": found.cut,
        "without": found.without,
        "leaves_out_snoozed": ("snoozed", "false") in message_filter.params,
        "peak": max((hour for group in found.results for hour in group.trend), default=0),
        "sorts": _sorts(order, request.path, kept, by),
        "within": href("", [pair for pair in kept if pair[0] not in ("group", "state")]),
        "may_merge": principal.may(Permission.DECIDE) and principal.sees_everything,
    }


def _sorts(order: str, path: str, kept: Pairs, by: str) -> dict[str, Sort]:
    """Return how the list is sorted by each column that can sort it."""
    return {
        one: Sort(href(path, [*kept, ("group_by", by), ("sort", one)]), "-" if one == order else "") for one in SetOrder
    }


def _shown(row: MessageSet, grouping: Grouping, by: str, kept: Pairs, path: str) -> ShownSet:
    if row.value is None:
        return ShownSet(row, _none_of(by), None)
    name = reason_words(row.value) if by == GroupBy.REASON else row.label or row.value
    others = [pair for pair in kept if pair[0] != grouping.parameter]
    return ShownSet(row, name, href(path, [*others, (grouping.parameter, row.value)]))


def _none_of(by: str) -> str:
    """Return what messages are called that have no value of this kind."""
    known: dict[str, str] = {
        GroupBy.ORIGINAL_ADDRESS: "Not moved",
        GroupBy.DESTINATION: "No destination",
        GroupBy.REASON: "No reason",
        GroupBy.OWNER: "Nobody",
        GroupBy.CONSUMER_VERSION: "No version stated",
    }
    return known.get(by, f"No {by}")
