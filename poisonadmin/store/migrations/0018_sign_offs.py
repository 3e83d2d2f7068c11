"""Sign-offs: the rules that ask for them, and what an operation keeps of its own."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0017_operations"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignOffRule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("match", models.CharField(max_length=255)),
                ("action", models.CharField(max_length=16, null=True)),
                ("above", models.IntegerField()),
                ("version", models.IntegerField(db_default=1)),
                ("updated_by", models.CharField(max_length=255)),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "sign_off_rule",
            },
        ),
        migrations.RemoveConstraint(
            model_name="operation",
            name="operation_state_known",
        ),
        migrations.AddField(
            model_name="operation",
            name="broke_glass_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="requester",
            field=models.CharField(db_default="", max_length=255),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off_by",
            field=models.CharField(max_length=255, null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off_decision",
            field=models.CharField(max_length=8, null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off_expires_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sign_off_reason",
            field=models.TextField(null=True),
        ),
        migrations.AlterField(
            model_name="operation",
            name="state",
            field=models.CharField(max_length=24),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("sign_off__isnull", True)),
                fields=["requester", "action", "requested_at"],
                name="operation_by_requester",
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                models.F("id"), condition=models.Q(("broke_glass_at__isnull", False)), name="operation_broke_glass"
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["cancelled", "completed", "halted", "paused", "running", "waiting_for_sign_off"])
                ),
                name="operation_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("sign_off_decision__in", ["consent", "refuse"]),
                    ("sign_off_decision__isnull", True),
                    _connector="OR",
                ),
                name="operation_sign_off_decision_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "waiting_for_sign_off"), _negated=True),
                    ("sign_off_expires_at__isnull", False),
                    _connector="OR",
                ),
                name="operation_sign_off_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="signoffrule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action__in", ["approve", "deliver_now", "fail", "postpone", "quarantine", "restore", "return"]),
                    ("action__isnull", True),
                    _connector="OR",
                ),
                name="signoffrule_action_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="signoffrule",
            constraint=models.UniqueConstraint(
                fields=("match", "action"), name="sign_off_rule_once", nulls_distinct=False
            ),
        ),
    ]
