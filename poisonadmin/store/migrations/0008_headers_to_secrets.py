from django.db import migrations

CREDENTIALS = (
    "authorization", "cookie", "cookie2", "set-cookie", "x-amz-security-token", "x-api-key", "x-auth-token",
    "x-csrf-token",
)  # fmt: skip


def move_credentials(apps, _schema_editor):
    """Move credentials out of the headers that readers see. A secret of the same name won before, and stays."""
    for row in apps.get_model("store", "Destination").objects.filter(kind="http", config__has_key="headers"):
        headers = row.config["headers"]
        taken = {name.lower() for name in row.secrets}
        moved = {name: value for name, value in headers.items() if name.lower() in CREDENTIALS}
        if moved:
            row.config["headers"] = {name: value for name, value in headers.items() if name not in moved}
            row.secrets |= {name: value for name, value in moved.items() if name.lower() not in taken}
            row.save(update_fields=["config", "secrets"])


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0007_destination_owner"),
    ]

    operations = [migrations.RunPython(move_credentials, migrations.RunPython.noop)]
