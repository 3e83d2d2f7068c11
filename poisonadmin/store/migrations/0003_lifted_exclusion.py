"""What operations have taken away so that messages may be delivered again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0002_dead_letter_loop")]
    operations = [
        migrations.CreateModel(
            name="LiftedExclusion",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("operation_id", models.BigIntegerField(db_index=True)),
                ("kind", models.CharField(max_length=16)),
                ("former", models.JSONField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "lifted_exclusion",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["conversation", "poison_entry"])),
                        name="liftedexclusion_kind_known",
                    )
                ],
            },
        ),
    ]
