"""Regroupings, runs of the archive and erasures become runs of their kinds, under the ids that they have."""

from django.db import migrations, models

# The job that one had last becomes its run; one without a job gets one.
_CARRY_OVER = """
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT 'regroup' AS kind, job_id, id AS former_id, requested_by,
    CASE WHEN finished_at IS NULL THEN 'queued' ELSE 'succeeded' END AS state,
    jsonb_build_object('cut_off', cut_off) AS params,
    jsonb_build_object('surveyed', surveyed, 'archive_surveyed', archive_surveyed, 'moved_until', moved_until,
        'archive_moved', archive_moved, 'is_decided', planned_at IS NOT NULL) AS position,
    jsonb_build_object('read', read, 'changed', changed) || CASE WHEN planned_at IS NULL OR finished_at IS NOT NULL
        THEN '{}' ELSE jsonb_build_object('dissolved', dissolved, 'former', former) END AS result,
    CASE WHEN finished_at IS NOT NULL THEN changed WHEN planned_at IS NULL THEN read ELSE moved END AS done,
    CASE WHEN planned_at IS NOT NULL THEN changed END AS total,
    NULL::text AS error, requested_at, waits_until AS resumes_at, finished_at AS ended_at
FROM regrouping
UNION ALL
SELECT 'archive', job_id, id, requested_by,
    CASE WHEN state = 'running' AND is_cancelling THEN 'cancelling' WHEN state = 'running' THEN 'queued'
         WHEN state = 'done' THEN 'succeeded' ELSE state END,
    jsonb_build_object('as_of', as_of, 'is_dry_run', is_dry_run, 'cut_off', cut_off, 'cutoffs', cutoffs),
    jsonb_build_object('planned', planned, 'live_payloads', live_payloads, 'archived_payloads', archived_payloads),
    CASE WHEN is_dry_run THEN jsonb_build_object(
        'messages', (SELECT coalesce(sum(state.value::bigint), 0)
                     FROM jsonb_each(coalesce(totals -> 'addresses', '{}')) AS address,
                          jsonb_each_text(address.value) AS state),
        'payloads', (SELECT coalesce(sum(value::bigint), 0)
                     FROM jsonb_each_text(coalesce(totals -> 'payloads', '{}'))),
        'messages_at', coalesce(totals -> 'addresses', '{}'), 'payloads_at', coalesce(totals -> 'payloads', '{}'))
    ELSE jsonb_build_object('messages', totals -> 'messages' -> 'rows', 'payloads', payloads_removed) END,
    CASE WHEN state = 'done' THEN cut_off ELSE planned END, cut_off,
    error, requested_at, waits_until, ended_at
FROM archive_run
UNION ALL
SELECT 'erase', job_id, id, requested_by,
    CASE state WHEN 'running' THEN 'queued' WHEN 'done' THEN 'succeeded' ELSE state END,
    jsonb_build_object('filter', filter, 'reason', reason), '{}',
    CASE WHEN state = 'done' THEN '{"held_by": []}' || totals END,
    (SELECT count(*) FROM erased_message WHERE erasure_id = erasure.id), NULL,
    error, requested_at, waits_until, ended_at
FROM erasure;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    done = c.done, total = c.total, error = c.error, phase = NULL, worker = NULL, requested_by = c.requested_by,
    created_at = c.requested_at, resumes_at = c.resumes_at, ended_at = c.ended_at, expires_at = NULL
FROM carried AS c WHERE run.id = c.job_id;
-- Ids of new runs are not those of former ones of these kinds.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(former_id) + 1 FROM carried)));
INSERT INTO run (kind, former_id, state, params, position, result, patterns, done, total, error, requested_by,
                 created_at, resumes_at, ended_at)
SELECT kind, former_id, state, params, position, result, '[]', done, total, error, requested_by, requested_at,
       resumes_at, ended_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE carried;
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0013_reports")]

    operations = [
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.RemoveConstraint("archivepiece", "archive_piece_once"),
        migrations.AlterField("archivepiece", "run", models.BigIntegerField(db_column="run_id", db_index=True)),
        migrations.RenameField("archivepiece", "run", "run_id"),
        migrations.AlterField("archivepiece", "run_id", models.BigIntegerField(db_index=True)),
        migrations.AddConstraint(
            "archivepiece", models.UniqueConstraint(fields=("run_id", "number"), name="archive_piece_once")
        ),
        migrations.AlterField("archivefile", "run", models.BigIntegerField(db_column="run_id", db_index=True)),
        migrations.RenameField("archivefile", "run", "run_id"),
        migrations.AlterField("archivefile", "run_id", models.BigIntegerField(db_index=True)),
        migrations.AlterField("erasedmessage", "erasure", models.BigIntegerField(db_column="erasure_id")),
        migrations.RenameField("erasedmessage", "erasure", "erasure_id"),
        migrations.AlterField("erasedmessage", "erasure_id", models.BigIntegerField()),
        migrations.DeleteModel("Regrouping"),
        migrations.DeleteModel("ArchiveRun"),
        migrations.DeleteModel("Erasure"),
    ]
