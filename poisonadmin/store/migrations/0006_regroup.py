"""Fingerprints get aliases; how many failures a regrouping moves is counted by pairs of fingerprints."""

from django.db import migrations, models

# A regrouping that is under way begins anew: what has moved already does not change again.
_BEGIN_ANEW = """
UPDATE regrouping SET surveyed = 0, archive_surveyed = 0, read = 0, changed = 0, planned_at = NULL, dissolved = '{}'
WHERE finished_at IS NULL
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0005_outbox")]

    operations = [
        migrations.DeleteModel("RegroupedArchive"),
        migrations.DeleteModel("RegroupedAttempt"),
        migrations.DeleteModel("RegroupMove"),
        migrations.RunSQL(_BEGIN_ANEW, migrations.RunSQL.noop),
        migrations.AddField("regrouping", "moved", models.BigIntegerField(db_default=0)),
        migrations.AddField("regrouping", "moved_until", models.BigIntegerField(db_default=0)),
        migrations.AddField("regrouping", "archive_moved", models.BigIntegerField(db_default=0)),
        migrations.CreateModel(
            "RegroupMove",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "was",
                        "fingerprint",
                        "is_archived",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("was", models.CharField(max_length=16)),
                ("fingerprint", models.CharField(max_length=16)),
                ("is_archived", models.BooleanField()),
                ("n", models.BigIntegerField()),
                ("title", models.CharField(max_length=300)),
                ("error_class", models.CharField(max_length=255)),
                ("message_id", models.BigIntegerField()),
                ("attempt_number", models.IntegerField()),
                ("finished_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
            ],
            {"db_table": "regroup_move"},
        ),
        migrations.CreateModel(
            "FingerprintAlias",
            [
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("former", models.CharField(max_length=16)),
                ("message_id", models.BigIntegerField(null=True)),
                ("attempt_number", models.IntegerField(null=True)),
                ("fingerprint", models.CharField(max_length=16)),
            ],
            {
                "db_table": "fingerprint_alias",
                "indexes": [
                    models.Index(
                        models.F("message_id"),
                        name="fingerprint_alias_of_message",
                        condition=models.Q(("message_id__isnull", False)),
                    ),
                    models.Index(
                        models.F("former"),
                        name="fingerprint_alias_of_all",
                        condition=models.Q(("message_id__isnull", True)),
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("former", "message_id", "attempt_number"),
                        name="fingerprint_alias_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
    ]
