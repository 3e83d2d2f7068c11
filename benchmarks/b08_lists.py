"""B8: pages and lists over a backlog of five million messages: how long each takes, against bare SQL, and paging by
number, as a common REST framework does it.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings

from benchmarks import loads
from benchmarks.results import Line, at_most, quantile, ratio_text, say
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.core.queries.paging import NEWEST_FIRST, Window
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.desk.pages.sets import GROUP_ORDERINGS
from poisonadmin.messages.commands.counts import fold, verify
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.facets import facets
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.access import Access
from poisonadmin.system.commands.accounts import bootstrap
from sample.backlog.load import load_backlog

NAME = "B8"
MESSAGES = 5_000_000
GROUPS = 400
TIMES = 30
AIM_MS = 300
OF_LIMITED = "what an account with few addresses sees"
SLOWER_THAN_SQL = 3
FASTER_THAN_NUMBERS = 100
BARE = f"SELECT {COLUMNS} FROM message m {JOINS} WHERE m.id < %s ORDER BY m.id DESC LIMIT 51"
BY_NUMBER = f"SELECT {COLUMNS} FROM message m {JOINS} ORDER BY m.id DESC LIMIT 50 OFFSET %s"


def run(world: World) -> list[Line]:
    """Load the backlog, look at every page some thirty times, and compare the lists of messages."""
    loads.empty()
    count, began = world.count(MESSAGES, least=10_000), time.monotonic()
    load_backlog(messages=count, groups=min(GROUPS, count // 100))
    loaded = time.monotonic() - began
    say(f"    {count:,} messages loaded in {loaded:.0f} s")
    fold()
    assert not verify(is_repair=False, actor="benchmark")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")
    return [*_pages(world, count), *_lists(count)]


def _pages(world: World, count: int) -> list[Line]:
    bootstrap(world.directory, password="b8-" + "x" * 20)
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        everybody, limited = Client(), Client()
        everybody.force_login(get_user_model().objects.get(username="admin"))
        limited.force_login(_limited_account())
        slowest = {}
        for name, urls in _urls().items():
            browser = limited if name == OF_LIMITED else everybody
            took = [(quantile(_milliseconds(partial(_get, browser, url)), 0.95), url) for url in urls]
            for ms, url in took:
                say(f"    {ms:7.1f} ms  {url}")
            slowest[name] = max(took)
    return [
        at_most(NAME, f"{name}, {count:,} messages, p95", ms, aim=AIM_MS, unit="ms", note=f"the slowest: {url}")
        for name, (ms, url) in slowest.items()
    ]


def _limited_account() -> User:
    user = User.objects.create_user("limited")
    Access.objects.create(user=user, role=Role.OPERATOR, address_patterns=["orders.eu.#"])
    return user


def _lists(count: int) -> list[Line]:
    middle = fetch_values("SELECT max(id) - %s FROM message", [count // 2])[0]
    deep = Window(NEWEST_FIRST, 50).page(_Row.some(middle)).next
    ours = _milliseconds(lambda: list_messages(parse_filter({}), principal=SYSTEM, cursor=deep))
    bare = _milliseconds(lambda: fetch_rows(BARE, [middle]))
    numbered = _milliseconds(
        lambda: (fetch_rows("SELECT count(*) FROM message"), fetch_rows(BY_NUMBER, [count // 2])), times=5
    )
    counted = _milliseconds(lambda: facets(parse_filter({"state": ["NDLV"]}), principal=SYSTEM))
    slower, faster = _ratio(ours, bare), _ratio(numbered, ours)
    return [
        Line(
            NAME,
            "a deep page of messages / bare SQL, p95",
            f"{ratio_text(slower)}; {quantile(ours, 0.95):.1f} against {quantile(bare, 0.95):.1f} ms",
            f"<= {SLOWER_THAN_SQL}x",
            slower <= SLOWER_THAN_SQL,
        ),
        Line(
            NAME,
            "the same page by its number, with a count / ours, p95",
            f"{ratio_text(faster)}; {quantile(numbered, 0.95):.0f} ms",
            f">= {FASTER_THAN_NUMBERS}x",
            faster >= FASTER_THAN_NUMBERS,
        ),
        at_most(NAME, "facets of what is undecided, p95", quantile(counted, 0.95), aim=AIM_MS, unit="ms"),
    ]


class _Row:
    """A row as far as a cursor is concerned."""

    def __init__(self, row_id: int) -> None:
        self.id = row_id

    @classmethod
    def some(cls, middle: int) -> Sequence["_Row"]:
        """Return a page, and one more, whose last row is `middle`."""
        return [cls(middle + place) for place in range(49, -2, -1)]


def _urls() -> dict[str, list[str]]:
    group, few = fetch_values(
        "(SELECT id FROM failure_group ORDER BY failures DESC LIMIT 1)"
        " UNION ALL (SELECT id FROM failure_group ORDER BY failures LIMIT 1)"
    )
    (message,) = fetch_values("SELECT max(id) FROM message WHERE group_id IS NOT NULL")
    filters: list[dict[str, Any]] = [
        {},
        {"ordering": "id"},
        *({"state": str(state)} for state in State),
        *({"reason": reason} for reason in ("imported", "blacklisted", "oversized", "expired", "returned")),
        {"address": "orders.eu.created"},
        {"address": "orders.dlq", "state": "FAIL"},
        {"address": "orders.#", "state": "NDLV"},
        {"original_address": "orders.eu.created"},
        {"group": group},
        {"group": few, "state": "NDLV"},
        {"group": group, "reason": "quarantined"},
        {"error": "NullPointer"},
        {"error": "is closed already"},
        {"q": "order-123"},
        {"q": "failed:24h"},
        {"q": "!reason:imported state:NDLV"},
        {"header.X-Consumer-Version": "2.4.1"},
    ]
    return {
        "overview": ["/"],
        OF_LIMITED: ["/", "/triage/?state=NDLV&snoozed=false&group_by=failure"],
        "lists of messages": [f"/triage/?{urlencode(one)}" for one in filters],
        "failure groups": [
            "/triage/?state=NDLV&snoozed=false&group_by=failure",
            *(f"/triage/?snoozed=false&group_by=failure&sort={sort}" for sort in GROUP_ORDERINGS),
            "/triage/?failure=timeout&group_by=failure",
            "/triage/?state=NDLV&address=orders.%23&group_by=failure",
            f"/groups/{group}/",
            f"/groups/{few}/",
        ],
        "sets": [
            *(f"/triage/?group_by={one}" for one in ("address", "original_address", "destination", "reason")),
            "/triage/?state=NDLV&group_by=address",
        ],
        "failures": [f"/triage/?{one}group_by=failures" for one in ("", "address=orders.eu.created&", "error=closed&")],
        "addresses": ["/addresses/", "/addresses/one/?name=orders.dlq"],
        "a message": [f"/messages/{message}/"],
        "crashed": ["/triage/?state=NDLV&reason=blacklisted&group_by=crashes"],
    }


def _get(browser: Client, url: str) -> None:
    found = browser.get(url)
    if found.status_code != 200:
        raise RuntimeError(f"{url} answered {found.status_code}")


def _milliseconds(work: Callable[[], object], *, times: int = TIMES) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return took


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return quantile(one, 0.95) / quantile(other, 0.95)
