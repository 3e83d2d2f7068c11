"""Searches for groups that look alike become runs, under the ids that they have."""

from django.db import migrations

# The job that a search had last becomes its run; a search without a job gets one.
_CARRY_OVER = """
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT id AS former_id, job_id, requested_by, requested_at, finished_at, error, coalesce(groups, 0) AS done,
    CASE state WHEN 'done' THEN 'succeeded' WHEN 'running' THEN 'queued' ELSE state END AS state,
    CASE WHEN groups IS NULL THEN NULL ELSE jsonb_build_object(
        'groups', groups, 'left_out', left_out, 'proposals', proposals, 'groups_digest', groups_digest) END AS result
FROM alike_search;
-- Ids of new runs are not those of former searches.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM alike_search)));
UPDATE run SET former_id = c.former_id, state = c.state, params = '{}', position = '{}', result = c.result,
    done = c.done, error = c.error, phase = NULL, worker = NULL, requested_by = c.requested_by,
    created_at = c.requested_at, ended_at = c.finished_at, expires_at = NULL
FROM carried AS c WHERE run.id = c.job_id;
INSERT INTO run (kind, former_id, state, params, position, result, patterns, done, error, requested_by, created_at,
                 ended_at)
SELECT 'alike_groups', former_id, state, '{}', '{}', result, '[]', done, error, requested_by, requested_at, finished_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE carried;
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0007_broker_checks")]

    operations = [
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("AlikeSearch"),
    ]
