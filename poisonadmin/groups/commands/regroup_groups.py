"""The groups of failures that get other fingerprints: which stay, which are made, which are shown as another one.

All of it is one transaction. Before it and after it, and whatever is killed in between, each failure is seen in one
group: a fingerprint that was given up has a group that is merged into the one that stays.
"""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now

from poisonadmin.core.commands import locks
from poisonadmin.core.commands.transaction_retry import TransactionRetry, retried
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.groups.domain.failures import FINGERPRINT_VERSION
from poisonadmin.groups.domain.regroup_plan import KnownGroup, RegroupPlan, plan_regrouping
from poisonadmin.store.models.regrouping import Regrouping

_MOVED = """
SELECT was, fingerprint, sum(n)::bigint FROM (
    SELECT was, fingerprint, count(*) AS n FROM regrouped_attempt GROUP BY 1, 2
    UNION ALL SELECT was, fingerprint, n FROM regrouped_archive) AS noted
GROUP BY 1, 2
"""
_KEPT = "SELECT was FROM regroup_move WHERE was = fingerprint"
_LOCK = "SELECT FROM failure_group WHERE fingerprint = ANY(%s) ORDER BY fingerprint FOR UPDATE"
_GROUPS = """
SELECT g.id, g.fingerprint, g.failures, g.merged_into_id,
       EXISTS (SELECT FROM group_annotation said WHERE said.group_id = g.id)
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
_SAMPLES = """
SELECT DISTINCT ON (fingerprint) fingerprint, title, message_id, error_class, finished_at FROM (
    SELECT noted.*, coalesce(t.error_class, '') AS error_class, t.finished_at, FALSE AS is_archived
    FROM (SELECT fingerprint, min(message_id) AS message_id FROM regrouped_attempt GROUP BY 1) AS first
         JOIN (SELECT fingerprint, title, message_id, attempt_number FROM regrouped_attempt) AS noted
              USING (message_id, fingerprint)
         JOIN attempt AS t USING (message_id, attempt_number)
    UNION ALL
    SELECT fingerprint, title, message_id, attempt_number, error_class, finished_at, TRUE FROM regrouped_archive) AS one
ORDER BY fingerprint, is_archived, message_id, attempt_number
"""
_SAMPLE = """unnest(%(fingerprints)s::text[], %(titles)s::text[], %(messages)s::bigint[], %(classes)s::text[],
 %(times)s::timestamptz[]) AS sample (fingerprint, title, message_id, error_class, finished_at)"""
_DESCRIBE = f"""
UPDATE failure_group SET title = sample.title, sample_message_id = sample.message_id FROM {_SAMPLE}
WHERE failure_group.id = ANY(%(keepers)s) AND failure_group.fingerprint = sample.fingerprint
"""  # noqa: S608  (constants)
# None is new to anybody: their failures were seen in the group that they come from.
_MAKE = f"""
INSERT INTO failure_group (fingerprint, version, title, error_class, sample_message_id, first_at, last_at, is_unseen)
SELECT sample.fingerprint, %(version)s, sample.title, sample.error_class, sample.message_id, sample.finished_at,
       sample.finished_at, FALSE
FROM {_SAMPLE}
WHERE sample.fingerprint = ANY(%(new)s) ORDER BY sample.fingerprint
"""  # noqa: S608
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
_RESOLVE_MOVES = """
UPDATE regroup_move SET held_by = one.held_by, from_group_id = one.from_id, to_group_id = g.id
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS one (was, held_by, from_id), failure_group g
WHERE regroup_move.was = one.was AND g.fingerprint = regroup_move.fingerprint
"""


def decide_on_groups(regrouping_id: int) -> None:
    """Decide what becomes of the groups of all failures that are noted, and do it; once, however often it is called."""
    retried(lambda: _decide(regrouping_id))


def _decide(regrouping_id: int) -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            wanted = Regrouping.objects.select_for_update().filter(id=regrouping_id, planned_at=None)
            if wanted.exists():
                plan = _carry_out(cursor)
                wanted.update(planned_at=Now(), dissolved=plan.dissolved, former=sorted(_made_for(plan)))
    except IntegrityError as error:  # somebody has made a group of one of these fingerprints at this moment
        raise TransactionRetry from error


def _made_for(plan: RegroupPlan) -> list[int]:
    return fetch_values("SELECT id FROM failure_group WHERE fingerprint = ANY(%s)", [list(plan.former)])


def _carry_out(cursor: CursorWrapper) -> RegroupPlan:
    locks.hold(cursor, Lock.CONFIGURATION)  # nobody merges or splits meanwhile
    # What reads all notes comes before the groups are locked: failures wait for those.
    moved = {(was, now): count for was, now, count in fetch_rows(_MOVED)}
    samples = fetch_rows(_SAMPLES)
    cursor.execute(_LOCK, [sorted({one for pair in moved for one in pair})])
    groups = [KnownGroup(*row) for row in fetch_rows(_GROUPS)]
    plan = plan_regrouping(groups, moved, set(fetch_values(_KEPT)))
    changing = {**{group_id: one for one, group_id in plan.keepers.items()}, **plan.others}
    cursor.execute(_GIVE_UP, [list(changing)])
    cursor.execute(_TAKE, [FINGERPRINT_VERSION, list(changing), list(changing.values())])
    names = ("fingerprints", "titles", "messages", "classes", "times")
    values: dict[str, Any] = {name: [row[place] for row in samples] for place, name in enumerate(names)}
    values |= {"version": FINGERPRINT_VERSION, "new": plan.new, "keepers": list(plan.keepers.values())}
    for statement in (_MAKE, _DESCRIBE):
        cursor.execute(statement, values)
    cursor.execute(_MAKE_FORMER, [list(plan.former), list(plan.former.values())])
    cursor.execute(_MERGE, [list(plan.merged_into), list(plan.merged_into.values())])
    for statement in _COUNT_WITH if plan.dissolved else ():
        cursor.execute(statement, {"ids": list(plan.dissolved), "into": list(plan.dissolved.values())})
    _resolve_moves(cursor, {group.fingerprint: group.id for group in groups}, plan.dissolved)
    return plan


def _resolve_moves(cursor: CursorWrapper, held: Mapping[str, int], dissolved: Mapping[int, int]) -> None:
    """Write down which groups the moves are between."""
    values: list[Any] = [
        list(held),
        list(held.values()),
        [dissolved.get(group_id, group_id) for group_id in held.values()],
    ]
    cursor.execute(_RESOLVE_MOVES, values)
