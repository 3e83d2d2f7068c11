"""Reports become runs of their kind, under the ids that they have; their files stay."""

from django.db import migrations

# The job that a report had last becomes its run; a report without a job gets one. One that was removed by an erasure
# has an error.
_CARRY_OVER = """
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT job_id, id AS former_id, requested_by, account, patterns, error, requested_at, ended_at, place AS position,
    CASE WHEN state IN ('ready', 'expired') THEN CASE WHEN error IS NULL THEN 'succeeded' ELSE 'failed' END
         WHEN state = 'running' THEN 'queued' ELSE state END AS state,
    jsonb_build_object('asked', asked, 'saved_id', saved_id, 'shows_payload', shows_payload, 'cut_off', cut_off)
        AS params,
    CASE WHEN state IN ('ready', 'expired') AND error IS NULL THEN jsonb_build_object(
        'rows', rows, 'bytes', bytes, 'sha256', sha256, 'file_until', expires_at) END AS result,
    CASE WHEN state IN ('ready', 'expired') THEN total ELSE least(done, total) END AS done,
    nullif(total, 0) AS total,
    CASE WHEN state NOT IN ('queued', 'running') THEN coalesce(ended_at, requested_at) + interval '90 days' END
        AS expires_at
FROM report;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    account = c.account, patterns = c.patterns, done = c.done, total = c.total, error = c.error, phase = NULL,
    worker = NULL, requested_by = c.requested_by, created_at = c.requested_at, ended_at = c.ended_at,
    expires_at = c.expires_at
FROM carried AS c WHERE run.id = c.job_id;
-- Ids of new runs are not those of former reports.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM report)));
INSERT INTO run (kind, former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
                 created_at, ended_at, expires_at)
SELECT 'report', former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
       requested_at, ended_at, expires_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0012_broker_checks_run"),
    ]

    operations = [
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("RequestedReport"),
    ]
