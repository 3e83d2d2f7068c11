"""Broker checks become runs of their kind, under the ids that they have; a login moves with a check that waits."""

from django.db import migrations, models

# A check that was begun and has no result ended its worker.
_CARRY_OVER = """
-- Ids of new runs are not those of former checks.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM broker_check)));
INSERT INTO run (kind, former_id, state, params, secrets, position, result, patterns, error, requested_by, account,
                 created_at, started_at, ended_at, expires_at)
SELECT 'broker_check', id,
    CASE WHEN taken_at IS NULL THEN 'queued' WHEN answered_at IS NULL OR error IS NOT NULL THEN 'failed'
         ELSE 'succeeded' END,
    jsonb_build_object('purpose', purpose, 'kind', kind, 'config', config, 'source_id', source_id),
    CASE WHEN taken_at IS NULL THEN nullif(secrets, '{}') END, '{}', answer, '[]',
    CASE WHEN taken_at IS NOT NULL AND answered_at IS NULL THEN 'It ended its worker.' ELSE error END,
    asked_by, asked_by, asked_at, taken_at, coalesce(answered_at, taken_at), asked_at + interval '15 minutes'
FROM broker_check ORDER BY id;
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0011_cancelling")]

    operations = [
        migrations.AddField("longrun", "secrets", models.JSONField(null=True)),
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("BrokerCheck"),
    ]
