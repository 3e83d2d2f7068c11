from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0037_erasure_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="search",
            field=models.CharField(db_default="", max_length=1000),
        ),
    ]
