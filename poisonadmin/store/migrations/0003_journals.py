"""The directory of a node's journals, by its name."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0002_no_alike_merges")]

    operations = [migrations.RenameField("node", "pages", "journals")]
