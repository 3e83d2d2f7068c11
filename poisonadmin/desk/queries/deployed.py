"""Deployments of the consumers behind a failure group, and where they stand in its trend."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql
from poisonadmin.deployments.queries import DeploymentRow, deployments_since
from poisonadmin.groups.queries.groups import GroupDetail


@dataclass(frozen=True)
class GroupDeployments:
    """The deployments of four weeks, oldest first; `hours` and `days`: in words, by the bar of the trend."""

    rows: list[DeploymentRow]
    hours: dict[int, str]
    days: dict[int, str]


def group_deployments(group: GroupDetail, *, principal: Principal, now: datetime) -> GroupDeployments:
    """Return the deployments of those who consume what has failed with a group in the last weeks."""
    consumers = group_consumers([member.id for member in group.members], principal)
    since = datetime.combine((now - timedelta(days=len(group.days) - 1)).date(), datetime.min.time(), UTC)
    rows = deployments_since(since, principal=principal, consumers=consumers) if consumers else []
    hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [(hour - one.at.replace(minute=0, second=0, microsecond=0)) // timedelta(hours=1) for one in rows]
    days = [(now.astimezone(UTC).date() - one.at.astimezone(UTC).date()).days for one in rows]
    return GroupDeployments(rows, _marks(rows, hours, len(group.trend)), _marks(rows, days, len(group.days)))


def _marks(rows: Sequence[DeploymentRow], ago: Sequence[int], bars: int) -> dict[int, str]:
    marks: dict[int, list[str]] = {}
    for one, steps in zip(rows, ago, strict=True):
        if 0 <= steps < bars:
            marks.setdefault(bars - 1 - steps, []).append(one.words)
    return {place: ", ".join(words) for place, words in marks.items()}


def group_consumers(member_ids: Sequence[int], principal: Principal) -> list[str]:
    """Return the addresses in scope where failures of these fingerprints were in the last weeks, and the destinations
    to which those deliver."""
    found = fetch_rows(
        Sql(
            """SELECT DISTINCT address.name, destination.name
            FROM group_hour h JOIN address ON address.id = h.address_id
                 LEFT JOIN destination ON destination.id = address.destination_id
            WHERE h.group_id = ANY({ids}) AND {scope}""",
            ids=list(member_ids),
            scope=scope_condition(principal, "h.address_id"),
        )
    )
    return sorted({name for names in found for name in names if name is not None})
