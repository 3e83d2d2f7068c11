"""Runs the SQL of docs/operate/production.md: tables belong to another role than the one that PoisonAdmin runs as."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.services import Services
from tests.system.running_role import assert_only_runs

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = secrets.token_urlsafe(12)


@pytest.fixture
def documented(services: Services) -> Iterator[tuple[str, str]]:
    """Run the documented statements, under names of their own; return the URLs of the owner and the running role."""
    suffix = f"_{secrets.token_hex(4)}"
    page = (ROOT / "docs/operate/production.md").read_text()
    [block] = re.findall(r"```sql\n(CREATE ROLE.+?)```", page, re.DOTALL)
    statements = re.sub(r"\bpoisonadmin\w*", lambda name: name[0] + suffix, block).replace("'…'", f"'{PASSWORD}'")
    at = conninfo_to_dict(services.superuser_url)
    names = ("poisonadmin_owner", "poisonadmin")
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        for statement in filter(str.strip, statements.split(";")):
            session.execute(statement)
        yield tuple(
            f"postgresql://{name}{suffix}:{PASSWORD}@{at['host']}:{at['port']}/poisonadmin{suffix}" for name in names
        )
        session.execute(f"DROP DATABASE poisonadmin{suffix} WITH (FORCE)")
        for name in names:
            session.execute(f"DROP ROLE {name}{suffix}")


def migrate(url: str, owner: str) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py migrate` with both roles."""
    environment = os.environ | {"DATABASE_URL": url, "MIGRATION_DATABASE_URL": owner}
    command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_migrations_run_as_the_owner_and_give_the_other_role_what_it_needs(documented: tuple[str, str]) -> None:
    owner, running = documented
    for _ in range(2):
        done = migrate(running, owner)
        assert done.returncode == 0, done.stderr
    with psycopg.connect(owner) as session:
        owners = session.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert owners == [(conninfo_to_dict(owner)["user"],)]
    assert_only_runs(running)


def test_without_the_owner_the_migration_is_refused_and_nothing_changes(documented: tuple[str, str]) -> None:
    _, running = documented
    assert "permission denied" in migrate(running, running).stderr
    with psycopg.connect(running) as session:
        assert session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
