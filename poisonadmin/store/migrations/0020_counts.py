"""Counters tell original addresses apart, groups are listed in any order, and the counters are checked."""

import django.db.models.functions.datetime
from django.db import migrations, models

# The tables are locked by the changes above: nobody counts meanwhile.
_COUNT_ANEW = """
TRUNCATE counter, counter_delta;
INSERT INTO counter (address_id, state, reason, group_id, original_address_id, total)
SELECT address_id, state, reason, group_id, original_address_id, count(*) FROM message GROUP BY 1, 2, 3, 4, 5;
"""
_COUNT_AS_BEFORE = """
TRUNCATE counter, counter_delta;
INSERT INTO counter (address_id, state, reason, group_id, total)
SELECT address_id, state, reason, group_id, count(*) FROM message GROUP BY 1, 2, 3, 4;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0019_alerts"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterCheck",
            fields=[
                ("address_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("checked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seconds", models.FloatField()),
                ("wrong", models.BigIntegerField()),
            ],
            options={"db_table": "counter_check"},
        ),
        migrations.RunSQL(migrations.RunSQL.noop, _COUNT_AS_BEFORE),
        migrations.AddField("counterdelta", "original_address_id", models.BigIntegerField(null=True)),
        migrations.AddField("counter", "original_address_id", models.BigIntegerField(null=True)),
        migrations.RemoveConstraint("counter", "counter_once"),
        migrations.RunSQL(_COUNT_ANEW, "TRUNCATE counter"),
        migrations.AddConstraint(
            "counter",
            models.UniqueConstraint(
                fields=["address_id", "state", "reason", "group_id", "original_address_id"],
                name="counter_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            "counter",
            models.Index(
                models.F("group_id"),
                models.F("state"),
                condition=models.Q(group_id__isnull=False),
                name="counter_by_group",
            ),
        ),
    ]
