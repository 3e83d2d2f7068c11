"""A wrong variable stops the start and is named in one line, without its value."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from poisonadmin.environment import Environment

ROOT = Path(__file__).resolve().parents[2]
CANARY = "s3cr3t"
GOOD = {"DATABASE_URL": "postgresql://u:p@127.0.0.1:5432/n"}

WRONG = [
    ("DATABASE_URL", ""),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@127.0.0.1:99999/n"),
    ("DATABASE_URL", f"mysql://u:{CANARY}@127.0.0.1/n"),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@127.0.0.1"),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@[::1/n"),
    ("MIGRATION_DATABASE_URL", f"mysql://u:{CANARY}@127.0.0.1/n"),
    ("REDIS_URL", f"http://:{CANARY}@127.0.0.1"),
    ("REDIS_URL", f"redis://:{CANARY}@127.0.0.1:x/0"),
    ("POISONADMIN_ALLOWED_NETWORKS", "10.0.0.0/8, everywhere"),
    ("POISONADMIN_ALLOW_LOOPBACK", "maybe"),
    ("POISONADMIN_ALLOWED_HOSTS", "https://poison.example.org"),
    ("POISONADMIN_TRUSTED_ORIGINS", "poison.example.org"),
    ("POISONADMIN_BEHIND_TLS", "please"),
    ("POISONADMIN_TRUSTED_PROXIES", "127.0.0.1, proxy.example.org"),
    ("POISONADMIN_TRUSTED_PROXIES", "*"),
    ("POISONADMIN_SESSION_HOURS", "0"),
    ("POISONADMIN_DEBUG", "2"),
    ("POISONADMIN_DB_POOL", "many"),
    ("POISONADMIN_ENVIRONMENT", "x" * 100),
    ("POISONADMIN_LOG_LEVEL", "LOUD"),
    ("POISONADMIN_PORT", "http"),
    ("POISONADMIN_PORT", "0"),
    ("POISONADMIN_HANDLER_PATH", "relative/path"),
    ("POISONADMIN_SOURCE_ROOTS", "relative/path"),
    ("POISONADMIN_SOURCE_ROOTS", "/srv:/etc/poison"),
    ("POISONADMIN_SECRET_KEY", f"{CANARY}\nof two lines"),
    ("SPARK_MASTER", "somewhere"),
    ("SPARK_REMOTE", "https://127.0.0.1"),
    ("JAVA_HOME", "/nowhere/at/all"),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}-{number}" for number, (name, _) in enumerate(WRONG)])
def test_a_wrong_variable_stops_the_start_with_one_line_that_names_it(name: str, value: str, tmp_path: Path) -> None:
    ended = _start(["manage.py", "check"], {name: value}, tmp_path)
    assert ended.returncode != 0
    [line] = ended.stderr.strip().splitlines()
    assert name in line
    assert CANARY not in ended.stderr + ended.stdout


@pytest.mark.parametrize(
    "program",
    [
        ["-m", "poisonadmin.serve", "--port", "1"],
        ["-m", "celery", "-A", "workers.celery_app", "worker", "-Q", "nobody"],
    ],
    ids=["web", "worker"],
)
def test_every_process_says_it_in_one_line(program: list[str], tmp_path: Path) -> None:
    ended = _start(program, {"DATABASE_URL": f"mysql://u:{CANARY}@127.0.0.1/n"}, tmp_path)
    assert ended.returncode != 0
    assert "DATABASE_URL must be postgresql://user:password@host:port/name" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert CANARY not in ended.stderr + ended.stdout


def _start(program: list[str], changed: dict[str, str], home: Path) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if not name.startswith(("POISONADMIN_", "SPARK_"))}
    settings = {"DJANGO_SETTINGS_MODULE": "poisonadmin.settings", "POISONADMIN_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *program],
        cwd=ROOT,
        env=known | GOOD | settings | changed,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_good_values_are_read() -> None:
    env = Environment(
        {
            "HOSTS": " example.org, .example.net ,*,[::1],10.0.0.1",
            "ORIGINS": "https://a.example.org:8443",
            "ON": "Yes",
            "OFF": "0",
            "LEVEL": "debug",
        }
    )
    assert env.hosts("HOSTS", ()) == ["example.org", ".example.net", "*", "[::1]", "10.0.0.1"]
    assert env.origins("ORIGINS") == ["https://a.example.org:8443"]
    assert (env.flag("ON"), env.flag("OFF"), env.flag("MISSING", default=True)) == (True, False, True)
    assert env.level("LEVEL", "INFO") == "DEBUG"
    assert env.redis("MISSING", "redis://127.0.0.1/0") == "redis://127.0.0.1/0"
    with pytest.raises(ImproperlyConfigured, match="POISONADMIN_ALLOW_LOOPBACK must be"):
        Environment({"POISONADMIN_ALLOW_LOOPBACK": "x"}).check_reach()
