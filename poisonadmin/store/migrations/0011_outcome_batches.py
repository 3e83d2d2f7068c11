"""Outcome batches: which attempts nobody has settled yet; and what nodes still have under way.

A statement that writes attempts of a claim leaves a batch, by a trigger, so that no writer can forget it. What was
under way before counts as one batch a claim.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

_TRIGGER = """
CREATE FUNCTION note_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outcome_batch (claim_id, message_ids)
    SELECT claim_id, array_agg(message_id) FROM written WHERE claim_id IS NOT NULL GROUP BY claim_id;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_is_unsettled AFTER INSERT ON attempt REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_outcomes();
ALTER TABLE outcome_batch SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
"""
_NO_TRIGGER = "DROP TRIGGER attempt_is_unsettled ON attempt; DROP FUNCTION note_outcomes();"

_UNDER_WAY = """
INSERT INTO outcome_batch (claim_id, message_ids)
SELECT claim_id, message_ids FROM claim_shard JOIN claim ON claim.id = claim_id WHERE is_open;
UPDATE node SET settled_at = ended_at
WHERE ended_at IS NOT NULL AND claim_id NOT IN (SELECT id FROM claim WHERE is_open);
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0010_append_only")]

    operations = [
        migrations.CreateModel(
            name="OutcomeBatch",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("claim_id", models.BigIntegerField()),
                (
                    "message_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
            ],
            options={"db_table": "outcome_batch"},
        ),
        migrations.AddIndex(
            model_name="outcomebatch",
            index=models.Index(models.F("claim_id"), models.F("id"), name="outcome_batch_of_claim"),
        ),
        migrations.AddField(
            model_name="claimshard",
            name="sizes",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AddField(model_name="node", name="settled_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="node", name="under_way", field=models.JSONField(null=True)),
        migrations.RunSQL(_UNDER_WAY, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                models.F("claim_id"),
                condition=models.Q(("ended_at__isnull", False), ("settled_at__isnull", True)),
                name="node_unsettled",
            ),
        ),
        migrations.RunSQL(_TRIGGER, _NO_TRIGGER),
    ]
