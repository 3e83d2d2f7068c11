"""Finds what needs the reader now, most urgent first: sentences, each with the page on which one acts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils import timezone

from poisonadmin.alerts.domain.kinds import KINDS, AlertKind
from poisonadmin.alerts.queries.alerts import AlertState, list_alerts
from poisonadmin.alerts.queries.conditions import LASTING
from poisonadmin.alerts.queries.watched import Watched
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.queries.operations import list_operations
from poisonadmin.decisions.sign_offs.queries import begun_without_count, waiting_count
from poisonadmin.groups.queries.groups import GroupRow, list_groups
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import Counts, unconfirmed
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import count_messages
from poisonadmin.search.queries.meanings import IS_SNOOZED
from poisonadmin.system.queries.overview import silent_kinds
from poisonadmin.web.pages.views import href

SHOWN_OF_A_KIND = 3
_DECIDE = "Decide"
SHOWN_GROUPS = 6
NEW_FOR = timedelta(days=1)
# Failures of the last hours, and of as many before, between which a group grows.
GROWING_HOURS = 2
LEAST_GROWTH = 5
_UNDECIDED = {"state": [str(State.NDLV)]}
_SNOOZED = Sql("SELECT said.group_id FROM annotation said WHERE said.group_id IS NOT NULL AND ({so})", so=IS_SNOOZED)
# What lasts, with the words of its button. The addresses of the first belong to no one scope.
_FIRST = {AlertKind.OPERATION_HALTED: "Continue or cancel", AlertKind.SOURCE_UNREACHABLE: "Open the source"}
_LATER = {
    AlertKind.ADDRESS_STOPPED: "Open the address",
    AlertKind.COUNTS_WRONG: "Open the address",
    AlertKind.ARCHIVE_FAILS: "Open the archive",
    AlertKind.DISK_FILLS: "Open the nodes",
    AlertKind.OVERDUE_DELIVERIES: "Open the address",
    AlertKind.OLDEST_UNDECIDED: _DECIDE,
}


@dataclass(frozen=True)
class Need:
    """Something to be done: `words` say what, `button` and `path` where. `tag`: a word that stands before it."""

    words: str
    path: str
    button: str
    tag: str = ""


def needs(principal: Principal, found: Counts) -> list[Need]:
    """Return what needs the reader now. `found`: the counts in the reader's scope."""
    known = [
        *_lasting(_FIRST, principal),
        *_sign_offs(principal),
        *_workers(principal),
        *_lasting(_LATER, principal),
        *_stopped_messages(found),
        *_groups(principal),
        *_own(principal),
        *_unconfirmed(principal),
    ]
    if not principal.may(Permission.DECIDE):
        known = [replace(need, button="Open") if need.button == _DECIDE else need for need in known]
    paths = {need.path for need in known}
    snoozed = set(fetch_values(*_SNOOZED))
    alerts = [
        Need(one.title, one.path, "Show", "alert")
        for one in list_alerts(principal=principal, state=AlertState.OPEN).results
        if one.path not in paths and int(one.facts.get("group_id", 0)) not in snoozed
    ]
    if (more := len(alerts) - SHOWN_OF_A_KIND) > 0:
        alerts[SHOWN_OF_A_KIND:] = [
            Need(_many(more, "more alert is open", "more alerts are open"), reverse("alerts"), "Show")
        ]
    return [*alerts, *known]


def quiet_since(principal: Principal) -> datetime | None:
    """Return when the latest alert was over or the latest operation had its state, as far as the reader sees them."""
    over = [one.resolved_at for one in list_alerts(principal=principal, state=AlertState.RESOLVED, limit=1).results]
    decided = [one.state_at for one in list_operations(principal=principal, limit=1).results]
    return max((at for at in (*over, *decided) if at), default=None)


def _lasting(kinds: Mapping[AlertKind, str], principal: Principal) -> Iterator[Need]:
    ids = visible_ids(principal)
    for kind, button in kinds.items():
        info = KINDS[kind]
        if ids is not None and not info.has_address:
            continue
        limit = timedelta(minutes=info.limit.default if info.limit else 0)
        for condition in LASTING[kind](Watched(ids, limit))[:SHOWN_OF_A_KIND]:
            yield Need(condition.title, condition.path, button)


def _sign_offs(principal: Principal) -> Iterator[Need]:
    if count := waiting_count(principal):
        words = _many(count, "operation waits for your sign-off", "operations wait for your sign-off")
        yield Need(words, reverse("sign_offs"), "Sign off")
    if count := begun_without_count(principal):
        words = _many(count, "operation was begun without its sign-off", "operations were begun without their sign-off")
        yield Need(f"{words} in the last 24 hours", f"{reverse('sign_offs')}#t-without", "Show")


def _workers(principal: Principal) -> Iterator[Need]:
    for kind, seconds in silent_kinds().items() if principal.sees_everything else ():
        who = f"No {kind} worker" if kind else "No worker"
        words = f"{who} has been seen for {int(seconds // 60) or 1} min"
        yield Need(words, reverse("nodes"), "Open the workers")


def _stopped_messages(found: Counts) -> Iterator[Need]:
    if count := found.by_reason.get(Reason.BLACKLISTED, {}).get(State.NDLV, 0):
        words = _many(count, "message crashed its consumer", "messages crashed their consumers")
        narrowed = [("state", State.NDLV), ("reason", Reason.BLACKLISTED), ("group_by", "crashes")]
        yield Need(words, href(reverse("triage"), narrowed), _DECIDE)


def _groups(principal: Principal) -> Iterator[Need]:
    undecided = parse_filter(_UNDECIDED | {"snoozed": ["false"]})
    page = list_groups(undecided, principal=principal, limit=SHOWN_GROUPS, ordering="-undecided")
    for group in sorted(page.results, key=lambda group: not _news_of(group)):
        count = group.counts[State.NDLV]
        words = _many(count, "message needs a decision", "messages need a decision")
        place = f" · {group.addresses[0]}" if group.addresses else ""
        yield Need(f"{words}: {group.title}{place}", reverse("groups-one", args=[group.id]), _DECIDE, _news_of(group))
    if page.without:
        words = _many(page.without, "message needs a decision", "messages need a decision")
        yield Need(f"{words}, and did not fail", href(reverse("triage"), [("state", State.NDLV)]), _DECIDE)


def _news_of(group: GroupRow) -> str:
    """Return whether the group is new, or grows: has twice the failures of the hours before the last ones."""
    if group.first_at > timezone.now() - NEW_FOR:
        return "new"
    now, before = group.trend[-GROWING_HOURS:], group.trend[-2 * GROWING_HOURS : -GROWING_HOURS]
    return "growing" if sum(now) >= max(LEAST_GROWTH, 2 * sum(before)) else ""


def _own(principal: Principal) -> Iterator[Need]:
    for word, what in (("owner", "that you own"), ("group_owner", "of failures that you own")):
        narrowed = _UNDECIDED | {word: [principal.name]}
        if count := count_messages(parse_filter(narrowed), principal=principal, cap=1000).n:
            pairs = [(name, text) for name, texts in narrowed.items() for text in texts]
            words = _many(count, f"message {what} needs a decision", f"messages {what} need a decision")
            yield Need(words, href(reverse("triage"), pairs), _DECIDE)


def _unconfirmed(principal: Principal) -> Iterator[Need]:
    if count := unconfirmed(principal).unanswered:
        words = _many(count, "delivery was not confirmed in time", "deliveries were not confirmed in time")
        yield Need(words, href(reverse("triage"), [("confirmation", "unanswered")]), "Show")


def _many(count: int, one: str, many: str) -> str:
    """Return how many there are in words.

    >>> _many(1, "message waits", "messages wait"), _many(1700, "message waits", "messages wait")
    ('1 message waits', '1,700 messages wait')
    """
    return f"{count:,} {one if count == 1 else many}"
