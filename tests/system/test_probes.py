"""Probes at the root."""

import threading
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client

from poisonadmin.system.api import probes
from tests.fixtures.api import Caller


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


def test_metrics_count_what_there_is(one_of_each: dict[str, Any]) -> None:
    text = Client().get("/metrics").content.decode()
    assert 'poisonadmin_messages{state="NDLV"} 3.0' in text
    assert 'poisonadmin_stopped_messages{reason="failed_by_admin",state="FAIL"} 1.0' in text
    assert "poisonadmin_due 3.0" in text
    assert "poisonadmin_stuck 0.0" in text
    assert 'poisonadmin_jobs{kind="ingest",state="queued"} 1.0' in text


def test_metrics_say_how_long_each_worker_has_been_silent(db: None) -> None:
    silent("spark-batch@a", 40)
    silent("spark-batch@b", 0)
    text = Client().get("/metrics").content.decode()
    assert 'poisonadmin_worker_silence_seconds{worker="spark-batch@a"} 40.0' in text
    assert 'poisonadmin_worker_silence_seconds{worker="spark-batch@b"} 0.' in text


def test_metrics_are_for_this_machine_or_for_who_may_read(
    viewer: Caller, outsider: Caller, django_user_model: Any
) -> None:
    def status(**headers: str) -> int:
        return Client(REMOTE_ADDR="10.0.0.7").get("/metrics", headers=headers).status_code

    assert status() == 403
    assert status(Authorization="Bearer pa_nonsense") == 403
    assert status(Authorization=f"Bearer {outsider.token}") == 403
    assert status(Authorization=f"Bearer {viewer.token}") == 200


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server"),
        *("Forwarded", "Via", "X-Real-IP", "x-forwarded-proto", "X-Original-Host", "X-Client-IP"),
    ],
)
def test_metrics_are_for_nobody_for_whom_a_proxy_on_this_machine_speaks(header: str, db: None) -> None:
    proxied = Client().get("/metrics", headers={header: "https"})
    assert (proxied.status_code, proxied["Content-Type"]) == (403, "application/problem+json")
    assert Client().get("/metrics", headers={"Accept": "text/plain", "X-Request-ID": "1"}).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_are_only_read(path: str, db: None) -> None:
    assert Client().post(path).status_code == 405
