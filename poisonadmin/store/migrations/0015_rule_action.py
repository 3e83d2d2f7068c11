"""An attempt that a content rule decided on names the rule's action."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0014_archive")]

    operations = [migrations.RenameField("attempt", "ruling", "rule_action")]
