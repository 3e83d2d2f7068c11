"""`manage.py doctor` finds what is wrong, and says what to do."""

import re
from io import StringIO
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection, connections

from poisonadmin.store.models.history import CounterCheck
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.run import Worker
from tests.system.test_probes import silent


@pytest.fixture
def well(transactional_db: None, settings: LazySettings, tmp_path: Path) -> None:
    """Have an installation of which all is well."""
    settings.ARCHIVE = str(tmp_path / "archive")
    for kind in ("io", "spark-batch", "spark-redelivery"):
        silent(f"{kind}@a", 1)


def said() -> tuple[int, dict[str, list[str]]]:
    """Return the exit status and, of each thing, the lines."""
    out, status = StringIO(), 0
    try:
        call_command("doctor", stdout=out)
    except SystemExit as ended:
        status = int(str(ended.code))
    lines: dict[str, list[str]] = {}
    for line in out.getvalue().splitlines():
        if line.startswith(("ok ", "WRONG ")):
            lines.setdefault(line.split()[1], []).append(line)
    return status, lines


def test_of_what_is_well_it_says_so_and_leaves_nothing_behind(well: None, tmp_path: Path) -> None:
    status, lines = said()
    assert status == 0, lines
    assert set(lines) == {"settings", "database", "clock", "queue", "archive", "mail", "secrets", "workers", "counts"}
    assert list((tmp_path / "archive").iterdir()) == []


def test_each_thing_that_is_wrong_is_named_with_what_to_do(well: None, settings: LazySettings, tmp_path: Path) -> None:
    settings.UNKNOWN_VARIABLES = ["POISONADMIN_HOEM is no setting; POISONADMIN_HOME is"]
    settings.REDIS_URL = "redis://:planted-canary@127.0.0.1:1/0"
    (tmp_path / "file").write_text("")
    settings.ARCHIVE = str(tmp_path / "file" / "archive")
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    Worker.objects.filter(name="spark-batch@a").delete()
    Worker.objects.filter(name="io@a").update(disk_path="/var", disk_free_bytes=1, disk_bytes=100)
    Source.objects.create(name="orders", kind="rabbitmq", failures=3, last_error="x")
    CounterCheck.objects.create(address_id=1, seconds=0.1, wrong=3)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE worker SET heartbeat_at = now() - interval '40 s' WHERE name = 'spark-redelivery@a'")
    status, lines = said()
    assert status == 1
    wrong = {thing for thing, found in lines.items() if any(line.startswith("WRONG") for line in found)}
    assert wrong == {"settings", "queue", "archive", "mail", "workers", "disks", "sources", "counts"}
    assert "start a worker spark-batch" in str(lines["workers"])
    assert re.search("spark-redelivery has been silent for [0-9]+ s", str(lines["workers"]))
    assert "planted-canary" not in str(lines)


def test_without_a_database_the_rest_is_still_tried(well: None, settings: LazySettings) -> None:
    there = connections["default"].settings_dict["PORT"]
    connection.close()
    connections["default"].settings_dict["PORT"] = 1
    try:
        status, lines = said()
    finally:
        connection.close()
        connections["default"].settings_dict["PORT"] = there
    assert status == 1
    assert "start PostgreSQL" in str(lines["database"])
    assert lines["queue"][0].startswith("ok")
