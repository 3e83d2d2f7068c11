"""Every list that a page or the API offers goes along an index, and orders no more than it shows and merges."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from poisonadmin.addresses.queries import list_addresses
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.queries.paging import Page
from poisonadmin.desk.api.messages import FILTER
from poisonadmin.groups.queries.groups import ORDERINGS as GROUP_ORDERINGS
from poisonadmin.groups.queries.groups import get_group, list_groups
from poisonadmin.messages.commands.counts import fold
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import counts
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import error_search, failures, list_plans, meanings
from poisonadmin.search.queries.blacklist import list_blacklisted
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.search.queries.lists import ORDERINGS, list_messages
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.rule import BusinessKey
from poisonadmin.system.pages.needs import needs
from poisonadmin.system.queries import overview
from sample.backlog.load import load_backlog

pytestmark = pytest.mark.django_db

MESSAGES = 20_000
LARGE = {
    *("message", "envelope", "body", "history", "attempt", "hop", "business_key"),
    "annotation",
}
MOST_ORDERED = 2_600  # what 48 walks and one more row each bring to a merge
DAY = datetime(2026, 11, 1, tzinfo=UTC)
LIMITED = principal("kim", Role.VIEWER, ["orders.eu.#"])

Filter = dict[str, list[str]]
FILTERS: list[Filter] = [
    {},
    *({"state": [str(state)]} for state in State),
    {"state": ["NDLV", "FAIL"]},
    *({"reason": [str(reason)]} for reason in Reason),
    {"reason": ["quarantined"], "state": ["NDLV"], "address": ["orders.eu.created"]},
    {"address": ["orders.eu.created"]},
    {"address": ["orders.dlq"], "state": ["FAIL"]},
    {"address": ["orders.#"], "state": ["NDLV"]},
    {"address": ["#.created"]},
    {"original_address": ["orders.eu.created"]},
    {"original_address": ["orders.#"], "state": ["FAIL"]},
    {"group": ["{group}"]},
    {"group": ["{group}"], "state": ["NDLV"], "reason": ["imported"]},
    {"failure": ["timeout"], "state": ["NDLV"]},
    {"group_owner": ["anna"]},
    {"group_tag": ["known"], "state": ["NDLV"]},
    {"snoozed": ["false"]},
    {"snoozed": ["true"]},
    {"candidate": ["true"]},
    {"held": ["true"]},
    {"held": ["false"], "state": ["TBDL"]},
    {"confirmation": ["awaited"]},
    {"error": ["NullPointer"]},
    {"error": ["is closed already"]},
    {"conversation_id": ["C-3"]},
    {"message_id": ["order-{id}"]},
    {"destination": ["shop"]},
    {"consumer_version": ["2.4.1"]},
    {"q": ["order-{id}"]},
    {"q": ["order-123"]},
    {"q": ["billing"]},
    {"q": ["attempts:>2"]},
    {"q": ["!reason:imported state:NDLV"]},
    {"q": ["!state:NDLV"]},
    {"q": ["failed:24h received:24h"]},
    {"key.customer": ["{key}"]},
    {"header.X-Consumer-Version": ["2.4.1"]},
    {"owner": ["kim"]},
    {"owner": ["none"], "state": ["NDLV"]},
    {"q": ["!owner:kim"]},
    {"tag": ["rare"]},
    {"tag": ["frequent"], "state": ["NDLV"]},
    {"received_after": ["{yesterday}"]},
    {"received_before": ["{yesterday}"]},
    {"failed_after": ["{yesterday}"]},
    {"failed_before": ["{yesterday}"]},
]


@pytest.fixture(scope="module")
def known(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """Load a backlog once, and yield what of it filters name."""
    with django_db_blocker.unblock(), transaction.atomic():
        load_backlog(messages=MESSAGES, groups=100)
        fold()
        with connection.cursor() as cursor:
            owner = User.objects.create(username="kim").id
            cursor.execute(
                """INSERT INTO annotation (message_id, owner_id, tags)
                   SELECT id, CASE WHEN id %% 10 = 0 THEN %s END,
                          CASE WHEN id %% 500 = 0 THEN ARRAY['frequent', 'rare'] ELSE ARRAY['frequent'] END
                   FROM message WHERE id %% 2 = 0""",
                [owner],
            )
            cursor.execute(f"ANALYZE {', '.join(sorted(LARGE))}, failure_group, failure_words, address, counter")
            # So few rows are sometimes read whole for less: what still is so then has no index.
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SELECT (min(id) + max(id)) / 2 FROM message")
            middle = cursor.fetchone()[0]
        yield {
            "id": middle,
            "group": FailureGroup.objects.order_by("-failures")[0].id,
            "key": BusinessKey.objects.all()[0].value,
            "yesterday": (datetime.now(UTC) - timedelta(days=1)).isoformat(),
        }
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have so few be read first as are few among so many."""
    monkeypatch.setattr(list_plans, "FEW_MATCHES", 100)
    monkeypatch.setattr(list_plans, "MOST_WAITING", 100)
    monkeypatch.setattr(meanings, "FEW", 50)
    monkeypatch.setattr(error_search, "FEW", 1000)
    monkeypatch.setattr(failures, "FEW_MESSAGES", 1000)


@pytest.mark.parametrize("reader", [SYSTEM, LIMITED], ids=["all", "limited"])
@pytest.mark.parametrize("params", FILTERS, ids=str)
def test_a_list_of_messages_goes_along_an_index(params: Filter, reader: Any, known: dict[str, Any]) -> None:
    given = {name: [value.format(**known) for value in values] for name, values in params.items()}
    for ordering in ORDERINGS:
        assert_cheap(
            lambda cursor: list_messages(  # type: ignore[misc]
                parse_filter(given),
                principal=reader,
                ordering=ordering,  # noqa: B023
                limit=20,
                cursor=cursor,
            )
        )


def test_every_filter_of_messages_is_looked_at() -> None:
    assert {parameter.name for parameter in FILTER} <= {name for params in FILTERS for name in params}


@pytest.mark.parametrize("params", [{"snoozed": ["false"]}, {"state": ["NDLV"]}, {"failure": ["timeout"]}], ids=str)
@pytest.mark.parametrize("ordering", GROUP_ORDERINGS)
def test_the_list_of_groups_goes_along_indexes(ordering: str, params: Filter, known: dict[str, Any]) -> None:
    assert_cheap(
        lambda cursor: list_groups(parse_filter(params), principal=SYSTEM, ordering=ordering, limit=20, cursor=cursor)
    )


@pytest.mark.parametrize(
    "only",
    [
        FailureFilter(),
        FailureFilter(addresses=("orders.#",)),
        FailureFilter(errors=("NullPointer",)),
        FailureFilter(errors=("is closed already",)),
        FailureFilter(failed_after=DAY),
        FailureFilter(failed_before=DAY),
    ],
    ids=str,
)
def test_the_failure_log_goes_along_indexes(only: FailureFilter, known: dict[str, Any]) -> None:
    assert_cheap(lambda cursor: list_failures(only, principal=SYSTEM, limit=20, cursor=cursor))


def test_the_other_pages_go_along_indexes(known: dict[str, Any]) -> None:
    assert_cheap(lambda cursor: list_addresses(principal=SYSTEM, limit=20, cursor=cursor))
    assert_cheap(lambda cursor: list_blacklisted(principal=SYSTEM, limit=20, cursor=cursor))
    for ask in (
        lambda: get_group(known["group"], principal=SYSTEM),
        lambda: needs(SYSTEM, counts(SYSTEM)),
        lambda: overview.undecided_count(SYSTEM),
    ):
        for plan in plans_of(ask):
            assert_indexed(plan)


def assert_cheap(page: Callable[[str | None], Page[Any]]) -> None:
    """Fail unless the first page, and the one behind it, go along indexes."""
    pages: list[Page[Any]] = []
    for plan in plans_of(lambda: pages.append(page(None))):
        assert_indexed(plan)
    if pages[0].next is not None:
        for plan in plans_of(lambda: pages.append(page(pages[0].next))):
            assert_indexed(plan)


def assert_indexed(plan: dict[str, Any]) -> None:
    told = "\n".join(lines_of(plan))
    for node in nodes_of(plan):
        assert not (node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE), told
        if "Sort" in node["Node Type"]:
            assert sum(inner["Actual Rows"] * inner["Actual Loops"] for inner in node["Plans"]) <= MOST_ORDERED, told


def lines_of(node: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the plan as one reads it in an error."""
    about = (node[key] for key in ("Node Type", "Relation Name", "Index Name", "Filter", "Index Cond") if key in node)
    yield f"{'  ' * depth}{' '.join(about)}: {node['Actual Rows']} rows, {node['Actual Loops']} times"
    for inner in node.get("Plans", ()):
        yield from lines_of(inner, depth + 1)


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from nodes_of(inner)


def plans_of(ask: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the plans, with what happened, of the queries that `ask` makes."""
    found: list[dict[str, Any]] = []

    def explained(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if isinstance(sql, str) and sql.lstrip().startswith(("SELECT", "WITH", "(SELECT")) and "set_config" not in sql:
            with connection.connection.cursor() as plain:
                plain.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
                found.append(plain.fetchone()[0][0]["Plan"])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        ask()
    return found
