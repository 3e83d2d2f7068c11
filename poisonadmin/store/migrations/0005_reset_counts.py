"""The counts that an approval sets to 0 and the address that it forgets, so that a cancelled one can put them back."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0004_payload_read")]
    operations = [
        migrations.AddField("history", "reset_failures", models.IntegerField(null=True)),
        migrations.AddField("history", "reset_crashes", models.SmallIntegerField(null=True)),
        migrations.AddField("history", "reset_origin", models.BigIntegerField(null=True)),
    ]
