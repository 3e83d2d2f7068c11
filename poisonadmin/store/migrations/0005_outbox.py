"""Notices of reports are sent by the outbox of alerts."""

import django.db.models.deletion
from django.db import migrations, models

_CARRY_OVER = """
INSERT INTO alert_delivery (saved_id, state, webhook_id, body, tries, planned_at, due_at, log, created_at)
SELECT saved_id, state, webhook_id, body, tries, created_at, due_at,
       CASE WHEN answer IS NULL THEN '[]'::jsonb
            ELSE jsonb_build_array(jsonb_build_object('at', due_at, 'is_taken', state = 'sent', 'text', answer)) END,
       created_at
FROM report_delivery ORDER BY id
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0004_runs")]

    operations = [
        migrations.AlterField(
            "alertdelivery",
            "rule",
            models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.alertrule"),
        ),
        migrations.AddField(
            "alertdelivery",
            "saved",
            models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.savedreport"),
        ),
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("ReportDelivery"),
    ]
