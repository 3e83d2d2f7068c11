"""Selections and operations. A lane may be an operation's; history and messages name their operation."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# A million ids are 8 MB; to compress them costs more than to read them.
_AS_THEY_ARE = "ALTER TABLE selection_piece ALTER message_ids SET STORAGE EXTERNAL"
# What an operation has looked at is counted on its row again and again.
_ROOM = "ALTER TABLE operation SET (fillfactor = 50)"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0016_released"),
    ]

    operations = [
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("action", models.CharField(max_length=16)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.TextField()),
                ("params", models.JSONField(default=dict)),
                ("rate_per_second", models.FloatField(null=True)),
                ("has_lanes", models.BooleanField(db_default=False)),
                ("count", models.IntegerField()),
                ("pieces", models.IntegerField(db_default=0)),
                ("walked", models.IntegerField(db_default=0)),
                ("changed", models.IntegerField(db_default=0)),
                (
                    "canary",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
                ("stage", models.SmallIntegerField(db_default=0)),
                ("is_watched", models.BooleanField(db_default=False)),
                ("halted_why", models.TextField(null=True)),
                ("requested_by", models.CharField(max_length=255)),
                ("patterns", models.JSONField(default=list)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("state_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "operation",
            },
        ),
        migrations.CreateModel(
            name="OperationPace",
            fields=[
                ("operation_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("rate_per_second", models.FloatField()),
                ("next_slot", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "operation_pace",
            },
        ),
        migrations.CreateModel(
            name="OperationResult",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "operation_id", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("operation_id", models.BigIntegerField()),
                ("message_id", models.BigIntegerField()),
                ("outcome", models.CharField(max_length=16)),
                ("code", models.CharField(max_length=32, null=True)),
                ("detail", models.CharField(max_length=255, null=True)),
                ("group_id", models.BigIntegerField(null=True)),
                ("failed_group_id", models.BigIntegerField(null=True)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "operation_result",
            },
        ),
        migrations.CreateModel(
            name="Selection",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("filter", models.JSONField(null=True)),
                ("ordering", models.CharField(db_default="oldest", max_length=16)),
                ("most", models.IntegerField(null=True)),
                ("count", models.IntegerField(db_default=0)),
                ("ids_hash", models.CharField(db_default="", max_length=64)),
                (
                    "address_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                ("created_by", models.CharField(max_length=255)),
                ("frozen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "selection",
            },
        ),
        migrations.CreateModel(
            name="SelectionPiece",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "selection_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("selection_id", models.BigIntegerField()),
                ("number", models.IntegerField()),
                ("first_id", models.BigIntegerField()),
                ("last_id", models.BigIntegerField()),
                (
                    "message_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
            ],
            options={
                "db_table": "selection_piece",
            },
        ),
        migrations.RemoveConstraint(
            model_name="lane",
            name="lane_once",
        ),
        migrations.AddField(
            model_name="history",
            name="operation_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="lane",
            name="is_held",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="lane",
            name="operation_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="message",
            name="operation_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="selection",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="store.selection"),
        ),
        migrations.AddField(
            model_name="lane",
            name="is_plain",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Q(
                    ("conversation_id__isnull", True), ("is_isolation", False), ("operation_id__isnull", True)
                ),
                output_field=models.BooleanField(),
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.UniqueConstraint(
                fields=("address", "conversation_id", "is_isolation", "operation_id"),
                name="lane_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_plain", True)), fields=("address",), name="lane_plain_once"
            ),
        ),
        migrations.AddIndex(
            model_name="operationresult",
            index=models.Index(
                models.F("operation_id"),
                models.F("outcome"),
                models.F("code"),
                models.F("message_id"),
                name="operation_result_by_outcome",
            ),
        ),
        migrations.AddConstraint(
            model_name="operationresult",
            constraint=models.CheckConstraint(
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
                name="operationresult_outcome_known",
            ),
        ),
        migrations.AddIndex(
            model_name="selection",
            index=models.Index(
                models.F("expires_at"), condition=models.Q(("used_at__isnull", True)), name="selection_unused"
            ),
        ),
        migrations.AddConstraint(
            model_name="selection",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("ordering__in", ["newest", "newest_failure", "oldest", "oldest_failure", "random"])
                ),
                name="selection_ordering_known",
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(models.F("id"), condition=models.Q(("ended_at__isnull", True)), name="operation_open"),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action__in", ["approve", "deliver_now", "fail", "postpone", "quarantine", "restore", "return"])
                ),
                name="operation_action_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["cancelled", "completed", "halted", "paused", "running"])),
                name="operation_state_known",
            ),
        ),
        migrations.RunSQL([_AS_THEY_ARE, _ROOM], migrations.RunSQL.noop),
    ]
