"""PgBouncer in front of PostgreSQL: sessions are needed, and a pooler that gives none is refused with a sentence."""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.embedded.ports import free_port
from tests.apt import find_program
from tests.services import Services

PROJECT = Path(__file__).resolve().parents[2]
# `make test-long` installs it.
pytestmark = pytest.mark.long
REFUSED = "The database is behind a pooler that gives each transaction another session. Set pool_mode = session there"
STARTS = {
    "web": ["-c", "import poisonadmin.asgi"],
    "worker": ["-c", "from workers.celery_app import _check_schema; _check_schema()"],
    "migrate": ["manage.py", "migrate", "--no-input"],
}


@contextmanager
def pooled(services: Services, directory: Path, mode: str) -> Iterator[str]:
    """Run PgBouncer in front of the tests' server; yield the URL of a database behind it."""
    at, port = conninfo_to_dict(services.superuser_url), free_port()
    (directory / "users").write_text(f'"{at["user"]}" "{at.get("password", "")}"\n')
    (directory / "pgbouncer.ini").write_text(
        f"""[databases]
{at["dbname"]} = host={at["host"]} port={at["port"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {directory}/users
pool_mode = {mode}
ignore_startup_parameters = extra_float_digits,options
"""
    )
    directory.chmod(0o755)
    program = find_program("pgbouncer")
    assert program, "PgBouncer is missing: apt-get install pgbouncer"
    # It refuses to run as root.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    for file in directory.iterdir():
        os.chown(file, pwd.getpwnam("nobody").pw_uid if user else os.geteuid(), -1)
    login = f"{at['user']}:{at['password']}" if at.get("password") else at["user"]
    url = f"postgresql://{login}@127.0.0.1:{port}/{at['dbname']}"
    with subprocess.Popen([program, "-q", *user, directory / "pgbouncer.ini"]) as process:
        try:
            until = time.monotonic() + 30
            while True:
                try:
                    psycopg.connect(url, connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < until
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def started(what: str, url: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Begin as this process does."""
    own = {"DATABASE_URL": url, "POISONADMIN_HOME": str(home)}
    return subprocess.run(
        [sys.executable, *STARTS[what]], cwd=PROJECT, env=os.environ | own, capture_output=True, text=True
    )


@pytest.mark.parametrize("what", STARTS)
def test_a_pooler_in_transaction_mode_is_refused(services: Services, tmp_path: Path, what: str) -> None:
    (tmp_path / "pooler").mkdir()
    with pooled(services, tmp_path / "pooler", "transaction") as url:
        refused = started(what, url, tmp_path)
    assert refused.returncode == 1
    assert REFUSED in " ".join(refused.stderr.replace("HINT: ", "").split())


def test_a_pooler_in_session_mode_is_taken(services: Services, tmp_path: Path) -> None:
    (tmp_path / "pooler").mkdir()
    with pooled(services, tmp_path / "pooler", "session") as url:
        for what in ("web", "worker"):
            # The next thing that it looks at.
            assert "the database lacks" in started(what, url, tmp_path).stderr, what
