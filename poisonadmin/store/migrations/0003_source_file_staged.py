"""A file may be staged: read to its end and not merged yet."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0002_storage"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="sourcefile",
            name="sourcefile_state_known",
        ),
        migrations.RemoveIndex(
            model_name="sourcefile",
            name="source_file_seen",
        ),
        migrations.AddIndex(
            model_name="sourcefile",
            index=models.Index(
                models.F("source"),
                models.F("id"),
                condition=models.Q(("state__in", ["seen", "staged"])),
                name="source_file_seen",
            ),
        ),
        migrations.AddConstraint(
            model_name="sourcefile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["broken", "seen", "staged", "taken"])), name="sourcefile_state_known"
            ),
        ),
    ]
