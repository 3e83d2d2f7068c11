from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0038_archived_results"),
    ]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="search",
            field=models.CharField(db_default="", max_length=1000),
        ),
    ]
