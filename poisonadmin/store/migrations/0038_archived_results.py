"""Results of archived members: counted and found in the database, kept in the archive's files."""

import django.contrib.postgres.fields
from django.db import migrations, models

_BY_MESSAGE = """
ALTER TABLE operation_result DROP CONSTRAINT operation_result_pkey,
    ADD CONSTRAINT operation_result_pkey PRIMARY KEY (message_id, operation_id)
"""
_BY_OPERATION = """
ALTER TABLE operation_result DROP CONSTRAINT operation_result_pkey,
    ADD CONSTRAINT operation_result_pkey PRIMARY KEY (operation_id, message_id)
"""


def _key(*columns: str) -> models.CompositePrimaryKey:
    return models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0037_erasure_jobs"),
    ]

    operations = [
        migrations.CreateModel(
            name="ArchivedResult",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("operation_id", models.BigIntegerField()),
                ("piece_id", models.BigIntegerField(null=True)),
                ("outcome", models.CharField(max_length=16)),
                ("code", models.CharField(max_length=32, null=True)),
                ("n", models.IntegerField()),
                (
                    "message_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
            ],
            options={
                "db_table": "archived_result",
                "indexes": [
                    models.Index("operation_id", "outcome", name="archived_result_of_operation"),
                    models.Index("piece_id", name="archived_result_of_piece"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "outcome__in",
                                [
                                    "blacklisted",
                                    "cancelled",
                                    "changed",
                                    "confirmed",
                                    "delivered",
                                    "failed_new",
                                    "failed_same",
                                    "skipped",
                                    "waiting",
                                ],
                            )
                        ),
                        name="archivedresult_outcome_known",
                    ),
                ],
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_BY_MESSAGE, _BY_OPERATION)],
            state_operations=[
                migrations.AlterField("operationresult", "pk", _key("message_id", "operation_id")),
            ],
        ),
    ]
