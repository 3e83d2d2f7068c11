"""Removes rows that are kept for a while only, and are no messages: idempotency keys, ended runs, claims and nodes."""

from django.db import connection

from poisonadmin.core.queries.rows import execute
from poisonadmin.core.queries.sql import Sql, name
from poisonadmin.groups.domain.failures import HOURS_KEPT_DAYS
from poisonadmin.intake.commands.staged import sweep_orphans
from poisonadmin.messages.queries.crashes import CRASHED
from poisonadmin.runs.commands.requests import remove_expired_runs
from poisonadmin.runs.domain.kinds import KindName


def _delete_quiet(table: str, is_old: Sql, claim: str) -> Sql:
    """Return the statement that deletes old claims or nodes of them.

    What a blacklisted message was delivered with, and by which node, is shown for as long as the message is there.
    """
    return Sql(
        """DELETE FROM {table}
        WHERE {is_old} AND NOT EXISTS (SELECT FROM attempt WHERE claim_id = {claim} AND {crashed})""",
        table=name(table),
        is_old=is_old,
        claim=name(claim),
        crashed=CRASHED,
    )


_STATEMENTS = (
    "DELETE FROM idempotency_key WHERE created_at < now() - interval '1 day'",
    _delete_quiet("node", Sql("ended_at < now() - interval '7 days' AND \"end\" <> 'lost'"), "node.claim_id"),
    _delete_quiet("claim", Sql("NOT is_open AND claimed_at < now() - interval '7 days'"), "claim.id"),
    "DELETE FROM claim_shard WHERE NOT EXISTS (SELECT FROM claim WHERE claim.id = claim_id)",
    # Failed logins of any name that strangers try; so many are kept as are of use.
    """DELETE FROM axes_accessattempt WHERE attempt_time < now() - interval '12 hours'
       OR id <= (SELECT max(id) - 50000 FROM axes_accessattempt)""",
    # The next daily search asks the last one that succeeded, however old it is, whether groups have changed.
    Sql(
        """DELETE FROM run WHERE kind = {kind} AND ended_at < now() - interval '30 days'
        AND id <> (SELECT max(id) FROM run WHERE kind = {kind} AND state = 'succeeded')""",
        kind=str(KindName.ALIKE_GROUPS),
    ),
    "DELETE FROM consumer WHERE heartbeat_at < now() - interval '7 days'",
    "DELETE FROM seen_version WHERE last_at < now() - interval '90 days'",
    Sql("DELETE FROM group_hour WHERE hour < now() - {days} * interval '1 day'", days=HOURS_KEPT_DAYS),
    # One that came under another name; the last one of a kind stays, so that its silence is seen.
    """DELETE FROM worker w WHERE heartbeat_at < now() - interval '1 hour' AND EXISTS (
       SELECT FROM worker WHERE split_part(name, '@', 1) = split_part(w.name, '@', 1) AND heartbeat_at > w.heartbeat_at
       AND heartbeat_at > now() - interval '1 minute')""",
    "DELETE FROM restart_run WHERE operation_id IS NULL AND at < now() - interval '30 days'",
)


def clean_up() -> None:
    """Remove what has had its time, and what intake left behind.

    Idempotency keys after a day, runs when they expire, claims, nodes and consumers after a week, failures by hour
    after five, runs of restart jobs that began nothing, and searches for groups that look alike, after 30 days,
    versions that consumers have stated after 90.
    """
    with connection.cursor() as cursor:
        for statement in _STATEMENTS:
            execute(cursor, statement)
    remove_expired_runs()
    sweep_orphans()
