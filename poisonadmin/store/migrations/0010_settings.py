"""Columns of what people configure carry the names of its settings."""

from django.db import migrations, models

_ORDERS = ["newest", "newest_failure", "oldest", "oldest_failure", "random"]


class Migration(migrations.Migration):
    dependencies = [("store", "0009_searches")]

    operations = [
        migrations.RemoveConstraint("restartjob", "restartjob_ordering_known"),
        migrations.RenameField("restartjob", "most", "limit"),
        migrations.RenameField("restartjob", "ordering", "order"),
        migrations.RenameField("restartjob", "has_canary", "canary"),
        migrations.AlterModelOptions("signoffrule", {"verbose_name": "sign-off rule"}),
        migrations.RenameField("alertrule", "send_to", "to"),
        migrations.RenameField("savedreport", "send_to", "to"),
        migrations.AddConstraint(
            "restartjob",
            models.CheckConstraint(condition=models.Q(("order__in", _ORDERS)), name="restartjob_order_known"),
        ),
    ]
