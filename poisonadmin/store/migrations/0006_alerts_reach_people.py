"""Channels and kinds of alerts that reach people where they are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0005_reset_counts"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="alert",
            name="alert_kind_known",
        ),
        migrations.RemoveConstraint(
            model_name="alertrule",
            name="alertrule_channel_known",
        ),
        migrations.RemoveConstraint(
            model_name="savedreport",
            name="savedreport_channel_known",
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                models.F("ended_at"), condition=models.Q(("ended_at__isnull", False)), name="operation_ended"
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                models.F("sign_off_expires_at"),
                condition=models.Q(("sign_off_expires_at__isnull", False)),
                name="operation_sign_off",
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
                            "operation_ended",
                            "operation_halted",
                            "overdue_deliveries",
                            "sign_off_result",
                            "sign_off_waits",
                            "source_unreachable",
                        ],
                    )
                ),
                name="alert_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="alertrule",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["email", "pagerduty", "slack", "teams", "webhook"])),
                name="alertrule_channel_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="savedreport",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("channel__in", ["email", "pagerduty", "slack", "teams", "webhook"]),
                    ("channel__isnull", True),
                    _connector="OR",
                ),
                name="savedreport_channel_known",
            ),
        ),
    ]
