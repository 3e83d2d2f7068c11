"""A tenth of a table is to be gone before autovacuum looks for its space.

At a fiftieth, three of them were always at work beside a long run of the archive, on the two cores that it has.
"""

from django.db import migrations

_SCALE = "ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = {part})"
_TABLES = ("envelope", "body", "attempt", "history")


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0043_age_names"),
    ]

    operations = [
        migrations.RunSQL(_SCALE.format(table=table, part=0.1), _SCALE.format(table=table, part=0.02))
        for table in _TABLES
    ]
