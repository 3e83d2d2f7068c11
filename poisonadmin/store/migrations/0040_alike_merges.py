import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0039_searching_alert_rules"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlikeMerge",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("likeness", models.SmallIntegerField()),
                ("proposals", models.IntegerField()),
                ("changed", models.JSONField()),
                ("merged_by", models.CharField(max_length=255)),
                ("merged_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("undone_by", models.CharField(max_length=255, null=True)),
                ("undone_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "alike_merge",
                "indexes": [models.Index(fields=["-merged_at"], name="alike_merge_recent")],
            },
        ),
        migrations.RemoveConstraint(
            model_name="alikesearch",
            name="alikesearch_state_known",
        ),
        migrations.AddConstraint(
            model_name="alikesearch",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["cancelled", "done", "failed", "queued", "running"])),
                name="alikesearch_state_known",
            ),
        ),
    ]
