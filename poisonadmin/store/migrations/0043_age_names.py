"""Columns of ages say from when to when: `1_to_4_hours` instead of `under_4_hours`."""

from django.db import migrations

_NAMES = {
    "under_4_hours": "1_to_4_hours",
    "under_1_day": "4_to_24_hours",
    "under_3_days": "1_to_3_days",
    "under_7_days": "3_to_7_days",
    "under_30_days": "7_to_30_days",
}


def _renamed(table: str, names: dict[str, str]) -> str:
    text = "asked::text"
    for old, new in names.items():
        text = f"replace({text}, '\"{old}\"', '\"{new}\"')"
    return f"UPDATE {table} SET asked = ({text})::jsonb WHERE asked ->> 'kind' = 'ageing'"  # noqa: S608  (constants)


def _both(names: dict[str, str]) -> str:
    return "; ".join(_renamed(table, names) for table in ("report", "saved_report"))


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0042_near_rows"),
    ]

    operations = [
        migrations.RunSQL(_both(_NAMES), _both({new: old for old, new in _NAMES.items()})),
    ]
