from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0006_regroup"),
    ]

    operations = [
        migrations.RenameField("source", "next_look_at", "next_check_at"),
        migrations.RenameField("source", "looked_at", "checked_at"),
        migrations.RemoveConstraint("brokerlook", "brokerlook_purpose_known"),
        migrations.RenameModel("BrokerLook", "BrokerCheck"),
        migrations.AlterModelTable("brokercheck", "broker_check"),
        migrations.RenameIndex("brokercheck", old_name="broker_look_waiting", new_name="broker_check_waiting"),
        migrations.AddConstraint(
            "brokercheck",
            models.CheckConstraint(
                condition=Q(("purpose__in", ["connection", "preview", "queues"])), name="brokercheck_purpose_known"
            ),
        ),
    ]
