"""Conditions that hold right now, each found by an index that holds little else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import quote

from poisonadmin.alerts.domain import conditions as titles
from poisonadmin.alerts.domain.conditions import Condition
from poisonadmin.alerts.domain.kinds import AlertKind
from poisonadmin.alerts.queries.operations import OPERATION_CONDITIONS
from poisonadmin.alerts.queries.searched import longest_waiting
from poisonadmin.alerts.queries.watched import Watched
from poisonadmin.core.queries.masking import OUTSIDE, with_titles
from poisonadmin.core.queries.rows import bounded, database_time, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.groups.domain.annotations import failures_when, growth_of
from poisonadmin.messages.queries.counts import NOW, wrong_counts_at
from poisonadmin.messages.queries.due import come_due
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import latest_run
from poisonadmin.search.queries.meanings import IS_SNOOZED

CAP = 1000
SECONDS_TO_READ = 3
NAMED_ADDRESSES = 5


def oldest_undecided(of: Watched) -> list[Condition]:
    """Return the message that has waited longest for a decision, where that is longer than the limit."""
    if of.address_ids is not None and not _undecided_on(of.address_ids):
        return []
    if of.search:
        found = longest_waiting(of.search, of.patterns, of.condition("address_id"), of.limit)
        return [] if found is None else [_waits(*found, is_searched=True)]
    with bounded(SECONDS_TO_READ):
        rows = fetch_rows(
            Sql(
                """SELECT m.id, a.name, now() - m.undecided_at FROM
                (SELECT id, address_id, undecided_at FROM message WHERE undecided_at < now() - {limit} AND {on}
                 ORDER BY undecided_at, id LIMIT 1) m JOIN address a ON a.id = m.address_id""",
                limit=of.limit,
                on=of.condition("address_id"),
            )
        )
    return [_waits(*row) for row in rows]


def _waits(message_id: int, address: str, age: timedelta, *, is_searched: bool = False) -> Condition:
    facts = {"message_id": str(message_id), "address": address, "age_seconds": int(age.total_seconds())}
    title = titles.oldest_undecided(address, age, is_searched=is_searched)
    return Condition("", None, title, f"/messages/{message_id}/", facts)


def _undecided_on(ids: Sequence[int]) -> bool:
    """Return whether anything waits for a decision there, from the counters: else the index is read to its end."""
    is_any = Sql(
        "SELECT coalesce(sum(n), 0) > 0 FROM {now} WHERE state = 'NDLV' AND address_id = ANY({ids})", now=NOW, ids=ids
    )
    return bool(fetch_values(is_any)[0])


def overdue_deliveries(of: Watched) -> list[Condition]:
    """Return how many deliveries are late by more than the limit, on lanes that deliver.

    Messages of operations are left out: their rate may make them wait.
    """
    with bounded(SECONDS_TO_READ):
        rows = fetch_rows(
            Sql(
                "SELECT address_id, due_at FROM ({come_due}) waiting WHERE NOT is_held",
                come_due=come_due(
                    all_of([Sql("l.operation_id IS NULL"), of.condition("l.address_id")]),
                    until=Sql("now() - {limit}", limit=of.limit),
                    most=CAP,
                    without_closed=True,
                ),
            )
        )
    if not rows:
        return []
    address_id, due_at = min(rows, key=lambda row: row[1])
    [(address, late)] = fetch_rows("SELECT name, now() - %s FROM address WHERE id = %s", [due_at, address_id])
    title = titles.overdue(len(rows), CAP, address, late)
    facts = {"count": len(rows), "address": address, "late_seconds": int(late.total_seconds())}
    return [Condition("", None, title, _address_path(address), facts)]


def address_stopped(of: Watched) -> list[Condition]:
    """Return the addresses that a message has stopped."""
    rows = fetch_rows(
        Sql(
            "SELECT id, name, status_note, status_at FROM address WHERE status = 'STOPPED' AND {on} ORDER BY id",
            on=of.condition("id"),
        )
    )
    return [
        Condition(
            str(address_id), at.isoformat(), titles.address_stopped(name, note), _address_path(name), {"address": name}
        )
        for address_id, name, note, at in rows
    ]


def source_unreachable(of: Watched) -> list[Condition]:
    """Return the sources that are switched on and could not be read for longer than the limit."""
    rows = fetch_rows(
        """SELECT id, name, kind, last_error, coalesce(last_success_at, created_at),
                  now() - coalesce(last_success_at, created_at) FROM source
           WHERE is_enabled AND last_error IS NOT NULL
           AND CASE WHEN kind = 'directory' THEN last_error_at > coalesce(last_success_at, '-infinity')
                    ELSE failures > 0 END
           AND now() - coalesce(last_success_at, created_at) > %s ORDER BY id""",
        [of.limit],
    )
    return [
        Condition(
            str(source_id),
            since.isoformat(),
            titles.source_unreachable(name, length, error),
            f"/sources/{source_id}/",
            {"source": name, "kind": kind},
        )
        for source_id, name, kind, error, since, length in rows
    ]


def counts_wrong(of: Watched) -> list[Condition]:
    """Return the addresses whose counters differed from their messages when they were last compared."""
    return [
        Condition(
            str(one.address_id),
            None,
            titles.counts_wrong(one.address, one.messages),
            _address_path(one.address),
            {"address": one.address, "wrong": one.messages},
        )
        for one in wrong_counts_at(of.address_ids)
    ]


def archive_fails(of: Watched) -> list[Condition]:
    """Return the archive's latest run, where it failed or has met an error for longer than the limit."""
    run = latest_run(KindName.ARCHIVE, {"is_dry_run": False})
    if run is None or run.error is None:
        return []
    length = database_time() - run.created_at
    if run.state != RunState.FAILED and (run.is_over or length <= of.limit):
        return []
    title = titles.archive_fails(length, run.error)
    return [Condition("", run.created_at.isoformat(), title, "/archive/", {"run_id": run.id})]


# A disk is nearly full from here on, and never with so much room: a tenth of a great one is more than is ever spilt.
LEAST_FREE_SHARE = 0.1
ENOUGH_FREE_BYTES = 100 * 2**30


def disk_fills(of: Watched) -> list[Condition]:  # noqa: ARG001
    """Return the disks of workers that are nearly full, one a host; of a worker that is gone nobody knows."""
    rows = fetch_rows(
        """SELECT DISTINCT ON (host) host, disk_path, disk_free_bytes, disk_bytes FROM worker
           WHERE disk_free_bytes < least(%s * disk_bytes, %s) AND heartbeat_at > now() - interval '10 minutes'
           ORDER BY host, disk_free_bytes""",
        [LEAST_FREE_SHARE, ENOUGH_FREE_BYTES],
    )
    return [
        Condition(host, None, titles.disk_fills(host, path, free, size), "/nodes/", {"host": host, "free_bytes": free})
        for host, path, free, size in rows
    ]


# A share of few failures is no growth.
LEAST_GROWTH = 5
_GROWN = partial(
    Sql,
    """
SELECT g.id, g.title, g.error_class, seen.grown, seen.before
FROM (SELECT {group} AS id, sum(h.failures) FILTER (WHERE h.hour > {begin})::bigint AS grown,
             coalesce(sum(h.failures) FILTER (WHERE h.hour <= {begin}), 0)::bigint AS before
      FROM failure_group g JOIN group_hour h ON h.group_id = g.id
      WHERE {group} IN (SELECT {group} FROM failure_group g WHERE g.last_at > {begin})
            AND {on}
      GROUP BY 1) AS seen
     JOIN failure_group g ON g.id = seen.id LEFT JOIN annotation said ON said.group_id = g.id
WHERE seen.grown IS NOT NULL AND ({is_snoozed}) IS NOT TRUE ORDER BY seen.grown DESC, g.id
""",
    group=SEEN_AS,
    is_snoozed=IS_SNOOZED,
)


@dataclass(frozen=True)
class _GrownGroup:
    """A group with failures of late. `grown`: how many; `before`: those of the weeks before."""

    id: int
    title: str
    error_class: str
    grown: int
    before: int

    def has_grown(self, growth: Mapping[str, int]) -> bool:
        """Return whether it has grown so much: by a number, or a share of what was before."""
        if "percent" in growth and not (self.before and self.grown >= LEAST_GROWTH):
            return False
        wanted = failures_when(growth, now=self.before)
        return wanted is not None and self.before + self.grown >= wanted


def group_grows(of: Watched) -> list[Condition]:
    """Return the groups that have grown by the rule's growth within the limit, and are not snoozed.

    Failures are counted by hours of the clock: that in which the limit begins counts whole.
    """
    with bounded(SECONDS_TO_READ):
        begin = Sql("(now() - {limit} - interval '1 hour')", limit=of.limit)
        found = fetch(_GrownGroup, _GROWN(begin=begin, on=of.condition("h.address_id")))
    # They are sent to whoever: nobody's role reads more.
    growing = with_titles([one for one in found if one.has_grown(growth_of(of.growth))], OUTSIDE)
    return [
        Condition(
            str(one.id),
            None,
            titles.group_grows(one.title, one.grown, of.limit),
            f"/groups/{one.id}/",
            {
                "group_id": str(one.id),
                "error_class": titles.one_line(one.error_class),
                "failures": one.grown,
                "failures_before": one.before,
            },
        )
        for one in growing
    ]


LASTING: Mapping[AlertKind, Callable[[Watched], list[Condition]]] = {
    AlertKind.GROUP_GROWS: group_grows,
    AlertKind.OLDEST_UNDECIDED: oldest_undecided,
    AlertKind.OVERDUE_DELIVERIES: overdue_deliveries,
    AlertKind.ADDRESS_STOPPED: address_stopped,
    AlertKind.SOURCE_UNREACHABLE: source_unreachable,
    **OPERATION_CONDITIONS,
    AlertKind.COUNTS_WRONG: counts_wrong,
    AlertKind.ARCHIVE_FAILS: archive_fails,
    AlertKind.DISK_FILLS: disk_fills,
}
"""What lasts as long as its query finds it."""


@dataclass(frozen=True)
class UnseenGroup:
    """A group that is new, or has grown after it was quiet. `places`: its messages that are not over, by address id."""

    id: int
    title: str
    error_class: str
    quiet_since: datetime | None
    resumed_at: datetime | None
    sample_address_id: int | None
    places: Mapping[int, int]

    @property
    def kind(self) -> AlertKind:
        """The kind of its condition."""
        return AlertKind.NEW_GROUP if self.resumed_at is None else AlertKind.GROUP_GROWS_AGAIN

    def condition(self, of: Watched, names: Mapping[int, str]) -> Condition | None:
        """Return what a rule reports of it, with what it sees of its messages; None where it reports nothing."""
        places = set(self.places) | ({self.sample_address_id} if self.sample_address_id else set())
        seen = places if of.address_ids is None else places & set(of.address_ids)
        if not seen and of.address_ids is not None:
            return None
        title, mark = titles.new_group(self.title), ""
        if self.resumed_at is not None and self.quiet_since is not None:
            quiet = self.resumed_at - self.quiet_since
            if quiet < of.limit:
                return None
            title, mark = titles.group_grows_again(self.title, quiet), self.resumed_at.isoformat()
        facts = {
            "group_id": str(self.id),
            "error_class": titles.one_line(self.error_class),
            "waiting": sum(self.places.get(one, 0) for one in seen),
            "addresses": sorted(names[one] for one in seen if one in names)[:NAMED_ADDRESSES],
        }
        return Condition(str(self.id), mark, title, f"/groups/{self.id}/", facts)


def places_of_groups(ids: Sequence[int]) -> dict[int, dict[int, int]]:
    """Return how many messages of each group are not over, by address id; groups and addresses without are left out."""
    rows = fetch_rows(
        Sql(
            """SELECT c.group_id, c.address_id, sum(n)::bigint FROM {now}
            WHERE c.group_id = ANY({ids}) AND c.state IN ('NDLV', 'TBDL', 'DLNG') GROUP BY 1, 2 HAVING sum(n) > 0""",
            now=NOW,
            ids=ids,
        )
    )
    found: dict[int, dict[int, int]] = {}
    for group_id, address_id, n in rows:
        found.setdefault(group_id, {})[address_id] = n
    return found


def _address_path(name: str) -> str:
    return f"/addresses/one/?name={quote(name, safe='')}"
