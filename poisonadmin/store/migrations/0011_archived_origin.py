"""The address that an archived message was moved from, or came in on, for masking rules that hold there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0010_snoozed_failures")]
    operations = [
        migrations.AddField("archivedmessage", "original_address_id", models.BigIntegerField(null=True)),
    ]
