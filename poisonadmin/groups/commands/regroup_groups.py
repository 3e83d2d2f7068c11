"""The groups of failures that get other fingerprints: which stay, which are made, which are shown as another one.

All of it is one transaction. Before it and after it, and whatever is killed in between, each failure is seen in one
group: a fingerprint that was given up has a group that is merged into the one that stays.
"""

from functools import partial

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.commands.locks import TransactionRetry, retried
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, named_sql
from poisonadmin.groups.commands.regroup_moves import COUNTED_IN_GROUPS, FROM_AND_TO
from poisonadmin.groups.domain.failures import FINGERPRINT_VERSION
from poisonadmin.groups.domain.regroup_plan import KnownGroup, RegroupPlan, plan_regrouping
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.queries.runs import StoredRun

# The result of a regrouping before it has read anything.
NOTHING_READ = {"read": 0, "changed": 0}
_MOVED = "SELECT was, fingerprint, sum(n)::bigint FROM regroup_move WHERE was <> fingerprint GROUP BY 1, 2"
_KEPT = "SELECT DISTINCT was FROM regroup_move WHERE was = fingerprint"
_LOCK = "SELECT FROM failure_group WHERE fingerprint = ANY(%s) ORDER BY fingerprint FOR UPDATE"
_GROUPS = """
SELECT g.id, g.fingerprint, g.failures, g.merged_into_id,
       EXISTS (SELECT FROM annotation said WHERE said.group_id = g.id)
       OR EXISTS (SELECT FROM failure_group other WHERE other.merged_into_id = g.id)
FROM failure_group g
"""
# Fingerprints are unique at every moment, so those that go round give theirs up first.
_GIVE_UP = "UPDATE failure_group SET fingerprint = 'm' || id WHERE id = ANY(%s)"
_TAKE = """
UPDATE failure_group SET fingerprint = one.fingerprint, version = %s
FROM unnest(%s::bigint[], %s::text[]) AS one (id, fingerprint) WHERE failure_group.id = one.id
"""
# A failure of each fingerprint, which describes its group; one that is archived where none is live.
_SAMPLE = Sql("""(
    SELECT DISTINCT ON (fingerprint) fingerprint, title, error_class, message_id, finished_at FROM regroup_move
    ORDER BY fingerprint, is_archived, message_id, attempt_number) AS sample""")
_DESCRIBE = str(
    named_sql(
        """
UPDATE failure_group SET title = sample.title, sample_message_id = sample.message_id FROM {sample}
WHERE failure_group.id = ANY(%s) AND failure_group.fingerprint = sample.fingerprint
""",
        sample=_SAMPLE,
    )
)
# None is new to anybody: their failures were seen in the group that they come from.
_MAKE = str(
    named_sql(
        """
INSERT INTO failure_group (fingerprint, version, title, error_class, sample_message_id, first_at, last_at, is_unseen)
SELECT fingerprint, %s, title, error_class, message_id, finished_at, finished_at, FALSE FROM {sample}
WHERE fingerprint = ANY(%s) ORDER BY fingerprint
""",
        sample=_SAMPLE,
    )
)
_MAKE_FORMER = """
INSERT INTO failure_group (fingerprint, version, title, error_class, first_at, last_at, is_unseen, merged_into_id)
SELECT one.fingerprint, g.version, g.title, g.error_class, g.first_at, g.last_at, FALSE, g.id
FROM unnest(%s::text[], %s::bigint[]) AS one (fingerprint, id) JOIN failure_group g USING (id) ORDER BY one.fingerprint
RETURNING id
"""
_MERGE = """
UPDATE failure_group SET merged_into_id = one.into_id
FROM unnest(%s::bigint[], %s::bigint[]) AS one (id, into_id) WHERE failure_group.id = one.id
"""
# The failures of a dissolved group are counted with those of the one that stays.
_COUNT_WITH = (
    """
WITH one AS (
    SELECT dissolved.into_id, sum(g.failures) AS failures, min(g.first_at) AS first_at, max(g.last_at) AS last_at
    FROM unnest(%(ids)s::bigint[], %(into)s::bigint[]) AS dissolved (id, into_id) JOIN failure_group g USING (id)
    GROUP BY 1
)
UPDATE failure_group g SET failures = g.failures + one.failures, first_at = LEAST(g.first_at, one.first_at),
                           last_at = GREATEST(g.last_at, one.last_at)
FROM one WHERE g.id = one.into_id
""",
    "UPDATE failure_group SET failures = 0, is_unseen = FALSE WHERE id = ANY(%(ids)s)",
    """
WITH gone AS (
    DELETE FROM group_hour h USING unnest(%(ids)s::bigint[], %(into)s::bigint[]) AS dissolved (id, into_id)
    WHERE h.group_id = dissolved.id RETURNING dissolved.into_id, h.hour, h.address_id, h.failures
)
INSERT INTO group_hour (group_id, hour, address_id, failures)
SELECT into_id, hour, address_id, sum(failures) FROM gone GROUP BY 1, 2, 3
ON CONFLICT (group_id, hour, address_id) DO UPDATE SET failures = group_hour.failures + excluded.failures
""",
    """
WITH gone AS (
    DELETE FROM group_version v USING unnest(%(ids)s::bigint[], %(into)s::bigint[]) AS dissolved (id, into_id)
    WHERE v.group_id = dissolved.id
    RETURNING dissolved.into_id, v.consumer_version, v.address_id, v.first_at, v.last_at, v.failures
)
INSERT INTO group_version (group_id, consumer_version, address_id, first_at, last_at, failures)
SELECT into_id, consumer_version, address_id, min(first_at), max(last_at), sum(failures) FROM gone GROUP BY 1, 2, 3
ON CONFLICT (group_id, consumer_version, address_id) DO UPDATE SET
    first_at = LEAST(group_version.first_at, excluded.first_at),
    last_at = GREATEST(group_version.last_at, excluded.last_at),
    failures = group_version.failures + excluded.failures
""",
)
# A former fingerprint may have had another one before: all lead to the present one.
_ALIASES = (
    """
UPDATE fingerprint_alias SET fingerprint = one.fingerprint
FROM unnest(%(was)s::text[], %(now)s::text[]) AS one (was, fingerprint) WHERE fingerprint_alias.fingerprint = one.was
""",
    """
INSERT INTO fingerprint_alias (former, fingerprint) SELECT * FROM unnest(%(was)s::text[], %(now)s::text[])
ON CONFLICT (former, message_id, attempt_number) DO UPDATE SET fingerprint = excluded.fingerprint
""",
    "DELETE FROM fingerprint_alias WHERE former = fingerprint AND message_id IS NULL",
)
# Live failures are counted as they move (regroup_moves.py).
_COUNT_ARCHIVED = str(
    named_sql(
        """
WITH moved AS (
    SELECT source.id AS from_group_id, target.id AS to_group_id, one.n, one.finished_at, one.last_at
    FROM regroup_move AS one {from_and_to} WHERE is_archived
), {counted_in_groups}
SELECT FROM counted
""",
        from_and_to=FROM_AND_TO,
        counted_in_groups=COUNTED_IN_GROUPS,
    )
)


def decide_on_groups(turn: RunTurn) -> None:
    """Decide what becomes of the groups of all failures that are noted in a regrouping, and do it."""
    retried(partial(_decide, turn, turn.run))


def _decide(turn: RunTurn, run: StoredRun) -> None:
    result = {**NOTHING_READ, **(run.result or {})}
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            plan = _carry_out(cursor)
            result |= {"dissolved": plan.dissolved, "former": sorted(_made_for(plan))}
            turn.store(position={**run.position, "is_decided": True}, result=result, done=0, total=result["changed"])
    except IntegrityError as error:  # somebody has made a group of one of these fingerprints at this moment
        raise TransactionRetry from error


def _made_for(plan: RegroupPlan) -> list[int]:
    return fetch_values("SELECT id FROM failure_group WHERE fingerprint = ANY(%s)", [list(plan.former)])


def _carry_out(cursor: CursorWrapper) -> RegroupPlan:
    locks.hold(cursor, Lock.CONFIGURATION)  # nobody merges or splits meanwhile
    moved = {(was, now): count for was, now, count in fetch_rows(_MOVED)}
    cursor.execute(_LOCK, [sorted({one for pair in moved for one in pair})])
    groups = [KnownGroup(*row) for row in fetch_rows(_GROUPS)]
    plan = plan_regrouping(groups, moved, set(fetch_values(_KEPT)))
    changing = {**{group_id: one for one, group_id in plan.staying.items()}, **plan.others}
    cursor.execute(_GIVE_UP, [list(changing)])
    cursor.execute(_TAKE, [FINGERPRINT_VERSION, list(changing), list(changing.values())])
    cursor.execute(_MAKE, [FINGERPRINT_VERSION, plan.new])
    cursor.execute(_DESCRIBE, [list(plan.staying.values())])
    cursor.execute(_MAKE_FORMER, [list(plan.former), list(plan.former.values())])
    cursor.execute(_MERGE, [list(plan.merged_into), list(plan.merged_into.values())])
    for statement in _COUNT_WITH if plan.dissolved else ():
        cursor.execute(statement, {"ids": list(plan.dissolved), "into": list(plan.dissolved.values())})
    for statement in _ALIASES:
        cursor.execute(statement, {"was": list(plan.main), "now": list(plan.main.values())})
    cursor.execute(_COUNT_ARCHIVED)
    return plan
