from django.db import migrations, models

_MARK = """
UPDATE selection SET reads_payloads = TRUE FROM search WHERE search.selection_id = selection.id AND search.reads_payloads
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0040_alike_merges"),
    ]

    operations = [
        migrations.AddField(
            model_name="selection",
            name="reads_payloads",
            field=models.BooleanField(db_default=False),
        ),
        migrations.RunSQL(_MARK, migrations.RunSQL.noop),
    ]
