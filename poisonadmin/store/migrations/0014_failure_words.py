"""The words of failures, once for all attempts of a statement that say the same, for `error:`.

Thousands of failures say the same. An index over each attempt's own words doubled what it takes to write them.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

_TRIGGER = """
CREATE FUNCTION note_failure_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO failure_words (words, message_ids, attempt_numbers)
    SELECT searchable_words(error_message), array_agg(message_id), array_agg(attempt_number)
    FROM written WHERE outcome <> 'delivered' AND error_message IS NOT NULL GROUP BY error_message;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_has_words AFTER INSERT ON attempt REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_failure_words();
CREATE TRIGGER attempt_has_other_words AFTER UPDATE ON attempt REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_failure_words();
"""
_NO_TRIGGER = """
DROP TRIGGER attempt_has_words ON attempt;
DROP TRIGGER attempt_has_other_words ON attempt;
DROP FUNCTION note_failure_words();
"""

# In rows of about as many messages as a statement writes.
_FILL = """
INSERT INTO failure_words (words, message_ids, attempt_numbers)
SELECT searchable_words(error_message), array_agg(message_id), array_agg(attempt_number)
FROM attempt WHERE outcome <> 'delivered' AND error_message IS NOT NULL GROUP BY message_id / 2000, error_message;
"""
_INDEX = """
DROP INDEX attempt_error_words;
CREATE INDEX failure_words_by_word ON failure_words USING gin (to_tsvector('simple', words));
"""
_INDEX_BEFORE = """
DROP INDEX failure_words_by_word;
CREATE INDEX attempt_error_words ON attempt USING gin (to_tsvector('simple', searchable_words(error_message)))
WHERE outcome <> 'delivered' AND error_message IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0013_notifications")]

    operations = [
        migrations.CreateModel(
            name="FailureWords",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("words", models.TextField()),
                (
                    "message_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "attempt_numbers",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
            ],
            options={"db_table": "failure_words"},
        ),
        migrations.RunSQL(_TRIGGER, _NO_TRIGGER),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.RunSQL(_INDEX, _INDEX_BEFORE),
    ]
