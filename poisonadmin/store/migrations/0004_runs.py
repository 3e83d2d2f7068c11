"""Jobs become runs; dry runs of rules and comparisons become runs of their kinds, under the ids that they have."""

from django.db import migrations, models

_NAMES = """
ALTER SEQUENCE job_id_seq RENAME TO run_id_seq;
ALTER INDEX job_pkey RENAME TO run_pkey;
UPDATE run SET expires_at = ended_at + interval '2 days'
WHERE state = 'succeeded' AND (kind = 'redeliver' OR kind = 'ingest' AND params -> 'broker' IS NOT NULL);
-- Ids of new runs are not those of former comparisons.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM comparison)));
"""
# The job that a row had last becomes its run; a row without a job gets one.
_CARRY_OVER = """
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT 'dry_run' AS kind, job_id, NULL::bigint AS former_id, requested_by, '' AS account, '[]'::jsonb AS patterns,
    CASE WHEN finished_at IS NULL THEN 'queued' WHEN error IS NULL THEN 'succeeded' ELSE 'failed' END AS state,
    jsonb_build_object('rule_id', rule_id, 'rule_version', rule_version, 'cut_off', cut_off) AS params,
    jsonb_build_object('after', coalesce(report -> 'after', '0')) AS position,
    jsonb_build_object('read', read, 'matched', matched, 'found', coalesce(report -> 'found', '[]')) AS result,
    read AS done, error, requested_at, finished_at, NULL::timestamptz AS expires_at
FROM dry_run
UNION ALL
SELECT 'compare', job_id, id, requested_by, account, patterns,
    CASE state WHEN 'done' THEN 'succeeded' WHEN 'running' THEN 'queued' ELSE state END,
    jsonb_build_object('selection_id', selection_id, 'with_payload', with_payload, 'address_ids', to_jsonb(address_ids),
                       'against', CASE WHEN is_against_delivered THEN NULL ELSE against END),
    '{}',
    CASE WHEN failing_count IS NULL THEN NULL ELSE jsonb_build_object(
        'against', against, 'failing_count', failing_count, 'others_count', others_count,
        'address_ids', to_jsonb(address_ids), 'failing', failing, 'others', others, 'fields', fields, 'tested', tested,
        'findings', findings) END,
    coalesce(failing + others, 0), error, requested_at, finished_at, expires_at
FROM comparison;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    account = c.account, patterns = c.patterns, done = c.done, error = c.error, phase = NULL, worker = NULL,
    requested_by = c.requested_by, created_at = c.requested_at, ended_at = c.finished_at, expires_at = c.expires_at
FROM carried AS c WHERE run.id = c.job_id;
INSERT INTO run (kind, former_id, state, params, position, result, account, patterns, done, error, requested_by,
                 created_at, ended_at, expires_at)
SELECT kind, former_id, state, params, position, result, account, patterns, done, error, requested_by, requested_at,
       finished_at, expires_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0003_journals"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_kind_known"),
        migrations.RemoveConstraint(model_name="job", name="job_state_known"),
        migrations.RemoveIndex(model_name="job", name="job_unfinished"),
        migrations.RemoveIndex(model_name="job", name="job_recent"),
        migrations.RenameModel("Job", "LongRun"),
        migrations.AlterModelTable("LongRun", "run"),
        migrations.RemoveField(model_name="longrun", name="runs"),
        migrations.RemoveField(model_name="longrun", name="max_runs"),
        migrations.RenameField("longrun", "finished_at", "ended_at"),
        migrations.RenameField("longrun", "counts", "result"),
        migrations.AlterField("longrun", "result", models.JSONField(null=True)),
        migrations.AddField("longrun", "former_id", models.BigIntegerField(null=True)),
        migrations.AddField("longrun", "position", models.JSONField(null=True)),
        migrations.AddField("longrun", "account", models.CharField(db_default="", max_length=255)),
        migrations.AddField("longrun", "patterns", models.JSONField(default=list)),
        migrations.AddField("longrun", "tries", models.SmallIntegerField(db_default=0)),
        migrations.AddField("longrun", "expires_at", models.DateTimeField(null=True)),
        migrations.AddField("longrun", "resumes_at", models.DateTimeField(null=True)),
        migrations.AddField("longrun", "turn_at", models.DateTimeField(null=True)),
        migrations.RunSQL(_NAMES, migrations.RunSQL.noop),
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("DryRun"),
        migrations.DeleteModel("Comparison"),
        migrations.AddIndex(
            "longrun",
            models.Index(
                models.F("kind"),
                models.F("id"),
                condition=models.Q(("state__in", ["queued", "running", "cancelling"])),
                name="run_open",
            ),
        ),
        migrations.AddIndex("longrun", models.Index(fields=["kind", "-id"], name="run_recent")),
        migrations.AddIndex(
            "longrun",
            models.Index(models.F("expires_at"), condition=models.Q(("expires_at__isnull", False)), name="run_expiry"),
        ),
        migrations.AddConstraint(
            "longrun",
            models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["cancelled", "cancelling", "failed", "queued", "running", "succeeded"])
                ),
                name="longrun_state_known",
            ),
        ),
    ]
