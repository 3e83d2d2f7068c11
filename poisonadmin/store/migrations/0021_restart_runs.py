"""Runs of restart jobs are operations: what a job does and why, as whom it runs, and a list of its runs."""

from django.db import migrations, models
from django.db.models.functions import Now

# Until now a job approved with a reason of its own. Its owner is known by name only: the user, or the user's token,
# that had the name when the job was saved. A job whose owner is not found is refused until somebody saves it again.
_AS_BEFORE = """
UPDATE restart_job SET action = 'approve', reason = 'restarted by schedule', owner_account = coalesce(
    (SELECT 'user ' || id FROM auth_user WHERE username = owner AND date_joined <= updated_at),
    (SELECT 'token ' || max(api_token.id) FROM api_token JOIN auth_user ON auth_user.id = user_id
     WHERE username || ' via ' || name = owner AND created_at <= updated_at AND revoked_at IS NULL),
    CASE WHEN owner = 'system' THEN '' ELSE 'unknown' END)
"""
# A run that was cut off selects what is left of it.
_GO_ON = "UPDATE restart_job SET next_at = now() WHERE is_enabled AND run_after_id IS NOT NULL"
_LATEST_RUNS = """
INSERT INTO restart_run (restart_job_id, at, outcome, detail)
SELECT id, last_at, 'begun', format('%s approved, %s left alone, before runs were operations.',
                                    coalesce(last_counts ->> 'approved', '0'), coalesce(last_counts ->> 'refused', '0'))
FROM restart_job WHERE last_at IS NOT NULL
"""
_NO_JOBS = "DELETE FROM job WHERE kind = 'restart'"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0020_counts"),
    ]

    operations = [
        migrations.CreateModel(
            name="RestartRun",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("restart_job_id", models.BigIntegerField()),
                ("at", models.DateTimeField(db_default=Now())),
                ("asked_by", models.CharField(max_length=255, null=True)),
                ("outcome", models.CharField(max_length=16)),
                ("detail", models.TextField(null=True)),
                ("operation_id", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "restart_run",
            },
        ),
        migrations.AddConstraint(
            model_name="restartrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["begun", "failed", "nothing", "refused", "skipped"])),
                name="restartrun_outcome_known",
            ),
        ),
        migrations.AddIndex(
            model_name="restartrun",
            index=models.Index(fields=["restart_job_id", "-id"], name="restart_run_by_job"),
        ),
        migrations.AddField(
            model_name="operation",
            name="restart_job_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="spares_crashed",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="restartjob",
            name="action",
            field=models.CharField(default="approve", max_length=16),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="restartjob",
            name="reason",
            field=models.TextField(default=""),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="restartjob",
            name="rate_per_second",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="restartjob",
            name="owner_account",
            field=models.CharField(default="unknown", max_length=255),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="restartjob",
            name="schedule",
            field=models.CharField(max_length=100, null=True),
        ),
        migrations.AlterField(
            model_name="restartjob",
            name="is_enabled",
            field=models.BooleanField(db_default=False),
        ),
        migrations.RunSQL([_AS_BEFORE, _GO_ON, _LATEST_RUNS, _NO_JOBS], migrations.RunSQL.noop),
        migrations.RemoveField(
            model_name="restartjob",
            name="last_at",
        ),
        migrations.RemoveField(
            model_name="restartjob",
            name="last_counts",
        ),
        migrations.RemoveField(
            model_name="restartjob",
            name="run_after_id",
        ),
        migrations.AddConstraint(
            model_name="restartjob",
            constraint=models.CheckConstraint(
                condition=models.Q(("action__in", ["approve", "fail", "return"])), name="restartjob_action_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="restartjob",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_enabled", False), ("schedule__isnull", False), _connector="OR"),
                name="restart_job_on_by_schedule",
            ),
        ),
        migrations.RemoveConstraint(
            model_name="job",
            name="job_kind_known",
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["dry_run", "ingest", "redeliver"])), name="job_kind_known"
            ),
        ),
    ]
