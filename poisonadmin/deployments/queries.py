"""Deployments that were reported, and the versions of a consumer that were seen alive."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import columns, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import destination_names_seen, pattern_regex
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.deployments.domain.consumers import SeenIn, is_same_consumer

# Marks of a plot beyond these tell nothing apart.
MAX_MARKS = 50


@dataclass(frozen=True)
class DeploymentRow:
    """A version of a consumer that is in use since `at`. `reported_by`: the token or account that said so."""

    id: int
    consumer: str
    version: str
    at: datetime
    reported_by: str
    reported_at: datetime

    @property
    def words(self) -> str:
        """Return it in words, as the mark of a plot says it."""
        return f"{self.consumer} {self.version}"


_KEY = Key(("deployment.at", "deployment.id"), (datetime, int))
_SELECT = Sql("SELECT {columns} FROM deployment", columns=columns(DeploymentRow, "deployment"))


def list_deployments(
    *, principal: Principal, consumer: str | None = None, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[DeploymentRow]:
    """Return a page of the deployments of consumers in scope, the latest first; of one `consumer` where it is given."""
    principal.require(Permission.READ)
    which = _seen(principal, () if consumer is None else (consumer,))
    return fetch_page(DeploymentRow, _SELECT + Sql("WHERE {which}", which=which), page=window(cursor, limit, _KEY))


def deployments_since(since: datetime, *, principal: Principal, consumers: Sequence[str] = ()) -> list[DeploymentRow]:
    """Return the deployments from `since` on, oldest first, the latest 50: those of `consumers` where given."""
    which = all_of([_seen(principal, consumers), Sql("deployment.at >= {since}", since=since)])
    latest = Sql("WHERE {which} ORDER BY at DESC, id DESC LIMIT {most}", which=which, most=MAX_MARKS)
    return fetch(DeploymentRow, _SELECT + latest)[::-1]


def consumer_is_seen(consumer: str, principal: Principal) -> bool:
    """Return whether a consumer is in scope: a destination that the principal sees, or addresses all of which are."""
    return principal.covers(consumer) or consumer in (destination_names_seen(principal) or ())


def _seen(principal: Principal, consumers: Sequence[str]) -> Sql:
    """Return the condition that a deployment is of a consumer in scope, and the same as one of `consumers`."""
    if principal.sees_everything and not consumers:
        return Sql("TRUE")
    some = fetch_values("SELECT DISTINCT consumer FROM deployment")
    wanted = [one for one in some if not consumers or any(is_same_consumer(one, other) for other in consumers)]
    return Sql("deployment.consumer = ANY({some})", some=[one for one in wanted if consumer_is_seen(one, principal)])


class Sighting(NamedTuple):
    """A version of a consumer that was seen alive: where, and when last."""

    seen_in: str
    consumer: str
    version: str
    at: datetime


# What each consumer showed last, and all that it has shown of late since somebody waits for it: while it is rolled out,
# answers of both versions come. A deployment ends the one before.
_SIGHTINGS = """
SELECT seen_in, consumer, version, at FROM (
    SELECT *, row_number() OVER (PARTITION BY seen_in, consumer ORDER BY at DESC) AS place
    FROM (
        SELECT seen_in, consumer, version, last_at AS at FROM seen_version
        UNION ALL SELECT 'deployment', consumer, version, at FROM deployment
    ) AS every
) AS ranked WHERE place = 1 OR seen_in <> 'deployment' AND at >= greatest(%s, now() - interval '10 minutes')
ORDER BY at
"""
_DELIVERED_TO = """
SELECT DISTINCT destination.name FROM address JOIN destination ON destination.id = address.destination_id
WHERE address.name || '.' ~ %s
"""


def sightings(consumer: str, since: datetime) -> list[Sighting]:
    """Return which versions of a consumer are alive, oldest first: the last, and those of the last ten minutes since.

    The answers of a destination count for the addresses that deliver there, too.
    """
    answering = {consumer, *fetch_values(_DELIVERED_TO, [pattern_regex(consumer)])}
    return [
        one
        for one in (Sighting(*row) for row in fetch_rows(_SIGHTINGS, [since]))
        if (one.consumer in answering if one.seen_in == SeenIn.ANSWER else is_same_consumer(one.consumer, consumer))
    ]
