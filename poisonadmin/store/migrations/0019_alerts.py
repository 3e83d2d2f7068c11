"""Alert rules, alerts and their deliveries; failure groups remember when they were quiet."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0018_sign_offs"),
    ]

    operations = [
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=32)),
                ("subject", models.CharField(max_length=64)),
                ("mark", models.CharField(max_length=64)),
                ("title", models.CharField(max_length=300)),
                ("path", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("resolved_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "alert",
            },
        ),
        migrations.CreateModel(
            name="AlertDelivery",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("state", models.CharField(db_default="waiting", max_length=8)),
                ("is_held", models.BooleanField(db_default=False)),
                ("is_test", models.BooleanField(db_default=False)),
                ("webhook_id", models.CharField(max_length=64, unique=True)),
                ("body", models.TextField(null=True)),
                ("tries", models.IntegerField(db_default=0)),
                ("planned_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("answered_at", models.DateTimeField(null=True)),
                ("log", models.JSONField(db_default=[], default=list)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "alert_delivery",
            },
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100, unique=True)),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None),
                ),
                (
                    "addresses",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), size=None),
                ),
                ("limits", models.JSONField(default=dict)),
                ("channel", models.CharField(max_length=16)),
                ("send_to", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "secrets",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                ("old_secret_until", models.DateTimeField(null=True)),
                ("quiet_from", models.CharField(max_length=5, null=True)),
                ("quiet_until", models.CharField(max_length=5, null=True)),
                ("time_zone", models.CharField(max_length=64)),
                ("repeat_minutes", models.IntegerField()),
                ("is_enabled", models.BooleanField(db_default=True)),
                ("failing_since", models.DateTimeField(null=True)),
                ("owner", models.CharField(max_length=255)),
                ("version", models.IntegerField(db_default=1)),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "alert_rule",
            },
        ),
        # The groups that are there are not new.
        migrations.AddField(
            model_name="failuregroup",
            name="is_unseen",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AlterField(
            model_name="failuregroup",
            name="is_unseen",
            field=models.BooleanField(db_default=True),
        ),
        migrations.AddField(
            model_name="failuregroup",
            name="quiet_since",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="failuregroup",
            name="resumed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="address",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("status", "STOPPED")),
                name="address_stopped",
            ),
        ),
        migrations.AddIndex(
            model_name="failuregroup",
            index=models.Index(
                models.F("fingerprint"), condition=models.Q(("is_unseen", True)), name="failure_group_unseen"
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="delivery",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.alertdelivery"),
        ),
        migrations.AddConstraint(
            model_name="alertrule",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["email", "webhook"])), name="alertrule_channel_known"
            ),
        ),
        migrations.AddField(
            model_name="alertdelivery",
            name="rule",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.alertrule"),
        ),
        migrations.AddField(
            model_name="alert",
            name="rule",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.alertrule"),
        ),
        migrations.AddIndex(
            model_name="alertdelivery",
            index=models.Index(
                models.F("due_at"),
                condition=models.Q(("state", "waiting")),
                name="alert_delivery_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="alertdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["dropped", "failed", "sent", "waiting"])),
                name="alertdelivery_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(fields=("rule", "kind", "subject", "mark"), name="alert_once"),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resolved_at__isnull", True)),
                fields=("rule", "kind", "subject"),
                name="alert_open_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "address_stopped",
                            "break_glass",
                            "counts_wrong",
                            "group_grows_again",
                            "new_group",
                            "oldest_undecided",
                            "operation_halted",
                            "overdue_deliveries",
                            "source_unreachable",
                        ],
                    )
                ),
                name="alert_kind_known",
            ),
        ),
    ]
