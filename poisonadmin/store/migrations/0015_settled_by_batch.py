"""A batch of outcomes says what was delivered, and a claim how much of it is settled.

So settling reads no attempt of a delivered message, and looks for what nodes left only where something is missing. What
is under way gets its attempts now; its claims stay at 0 and are looked at as before.

Lists of message ids are stored as they are: to compress one took half a microsecond an id, at each claim and again at
each batch, and they are soon deleted.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

_SAY = """
UPDATE outcome_batch SET delivered = (
    SELECT array_agg(attempt.attempt_number ORDER BY place)
    FROM unnest(message_ids) WITH ORDINALITY AS one (message_id, place)
         LEFT JOIN message ON message.id = one.message_id
         LEFT JOIN attempt ON attempt.message_id = one.message_id AND attempt.attempt_number = message.attempt_number
                              AND outcome = 'delivered');
"""
_TRIGGER = """
CREATE OR REPLACE FUNCTION note_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outcome_batch (claim_id, message_ids, delivered)
    SELECT claim_id, array_agg(message_id), array_agg(CASE WHEN outcome = 'delivered' THEN attempt_number END)
    FROM written WHERE claim_id IS NOT NULL GROUP BY claim_id;
    RETURN NULL;
END $$;
"""
_FORMER_TRIGGER = """
CREATE OR REPLACE FUNCTION note_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outcome_batch (claim_id, message_ids)
    SELECT claim_id, array_agg(message_id) FROM written WHERE claim_id IS NOT NULL GROUP BY claim_id;
    RETURN NULL;
END $$;
"""
_AS_IT_IS = """
ALTER TABLE claim_shard ALTER message_ids SET STORAGE EXTERNAL;
ALTER TABLE outcome_batch ALTER message_ids SET STORAGE EXTERNAL, ALTER delivered SET STORAGE EXTERNAL;
"""
_COMPRESSED = """
ALTER TABLE claim_shard ALTER message_ids SET STORAGE EXTENDED;
ALTER TABLE outcome_batch ALTER message_ids SET STORAGE EXTENDED;
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0014_failure_words")]

    operations = [
        migrations.AddField("claim", "settled", models.IntegerField(db_default=0)),
        migrations.AddField(
            "outcomebatch",
            "delivered",
            django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), default=list),
            preserve_default=False,
        ),
        migrations.RunSQL(_SAY, migrations.RunSQL.noop),
        migrations.RunSQL(_TRIGGER, _FORMER_TRIGGER),
        migrations.RunSQL(_AS_IT_IS, _COMPRESSED),
    ]
