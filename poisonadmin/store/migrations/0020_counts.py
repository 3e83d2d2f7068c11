"""Counters tell original addresses apart and are checked; groups are listed in any order; a list of messages finds
what is rare in its indexes.
"""

import django.db.models.functions.datetime
from django.contrib.postgres.indexes import BrinIndex
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

_STOPPED = ("is_undecided", "is_given_up")
# Each replaces the one of its name.
_INDEXES: dict[str, tuple[tuple[str, ...], models.Q | None]] = {
    "message_undecided": (("reason", "id"), models.Q(is_undecided=True)),
    "message_given_up": (("reason", "id"), models.Q(is_given_up=True)),
    "message_by_address": (("address", *_STOPPED, "id"), None),
    "message_by_original": (("original_address", *_STOPPED, "id"), models.Q(original_address__isnull=False)),
    "message_by_group": (("group", *_STOPPED, "id"), models.Q(group__isnull=False)),
}


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
        *(migrations.RemoveIndex("message", name) for name in _INDEXES),
        *(
            migrations.AddIndex("message", models.Index(*map(models.F, columns), condition=condition, name=name))
            for name, (columns, condition) in _INDEXES.items()
        ),
        migrations.AddIndex(
            "message",
            models.Index(
                models.F("reason"),
                models.F("id"),
                condition=models.Q(is_undecided=False, is_given_up=False, reason__isnull=False),
                name="message_with_reason",
            ),
        ),
        migrations.AddIndex(
            "message",
            BrinIndex(
                models.F("id") + 0,
                models.F("failed_at"),
                name="message_in_time",
                pages_per_range=32,
                autosummarize=True,
            ),
        ),
        migrations.AddIndex(
            "envelope",
            BrinIndex(
                models.F("id") + 0,
                models.F("received_at"),
                name="envelope_in_time",
                pages_per_range=32,
                autosummarize=True,
            ),
        ),
    ]
