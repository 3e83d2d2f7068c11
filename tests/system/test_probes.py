"""Probes at the root."""

import threading

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client

from poisonadmin.system.api import probes


@pytest.mark.django_db(databases=[])
def test_healthz_asks_nothing_of_the_database() -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}


def test_readyz_asks_the_database_and_the_queue(transactional_db: None) -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (200, {"database": "ok", "queue": "ok", "workers": "ok"})


def silent(name: str, seconds: int) -> None:
    """Have a worker's latest tick be so long ago."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO worker (name, host, pid, heartbeat_at) VALUES (%s, 'here', 1, now() - %s * interval '1 s')",
            [name, seconds],
        )


def test_readyz_is_503_when_no_worker_of_a_kind_takes_ticks(transactional_db: None) -> None:
    silent("spark-redelivery@a", 215)
    silent("spark-redelivery@b", 1)
    assert Client().get("/readyz").status_code == 200
    silent("io@a", 31)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["workers"]) == (503, "io has taken no tick for 31 s")
    assert Client().get("/readyz?for=web").status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("UPDATE worker SET heartbeat_at = now() - interval '45 s'")
    said = Client().get("/readyz").json()["checks"]["workers"]
    assert said == "no worker has taken a tick for 45 s: see whether the beat runs"


def test_readyz_waits_for_no_check_that_hangs(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the check itself hangs; `tests/faults/f18_stopped.py` freezes the server."""
    goes_on = threading.Event()
    monkeypatch.setattr(probes, "_database", lambda: str(goes_on.wait(30)))
    for _ in range(3):
        answer = Client().get("/readyz")
        [(_, hanging)] = probes._checks["database"]
        assert not hanging.done()
        assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "does not answer within 1.5 s")
    goes_on.set()
    assert Client().get("/readyz").json()["checks"]["database"] == "True"


def test_readyz_is_503_without_the_queue(transactional_db: None, settings: LazySettings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["queue"]) == (503, "does not answer")


def test_readyz_is_503_on_tables_of_another_version(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    known = probes._migrations()
    monkeypatch.setattr(probes, "_migrations", lambda: known | {("store", "9999_next")})
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "1 migrations are not applied")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_are_only_read(path: str, db: None) -> None:
    assert Client().post(path).status_code == 405
