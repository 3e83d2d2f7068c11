"""A database that was made before there was one migration: taken over where it is whole, refused otherwise."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.store.schema import replaced
from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]
APPLIED = "SELECT name FROM django_migrations WHERE app = 'store'"
FORMER = sorted(name for _, name in replaced(MigrationLoader(None).disk_migrations))


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    """Yield the URL of an empty database."""
    name = f"former_{secrets.token_hex(4)}"
    at = conninfo_to_dict(services.superuser_url)
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        login = f"{at['user']}:{at['password']}" if at.get("password") else at["user"]
        yield f"postgresql://{login}@{at['host']}:{at['port']}/{name}"
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(url: str, *target: str) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py migrate`."""
    command = [sys.executable, "manage.py", "migrate", *target, "--no-input", "--verbosity", "0"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"DATABASE_URL": url}, capture_output=True, text=True)


def as_if_made_by(names: list[str], session: "psycopg.Connection[tuple[str]]") -> None:
    """Have the database say that it applied these former migrations in place of the one."""
    session.execute("DELETE FROM django_migrations WHERE app = 'store'")
    for name in names:
        session.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('store', %s, now())", [name])


def test_a_database_with_all_former_migrations_goes_on(url: str) -> None:
    assert migrate(url, "store", "0001_tables").returncode == 0
    with psycopg.connect(url, autocommit=True) as session:
        as_if_made_by(FORMER, session)
        done = migrate(url)
        assert done.returncode == 0, done.stderr
        applied = {("store", name) for (name,) in session.execute(APPLIED).fetchall()}
    assert {one for one in MigrationLoader(None).disk_migrations if one[0] == "store"} <= applied


def test_a_database_with_some_of_them_is_refused(url: str) -> None:
    assert migrate(url, "store", "0001_tables").returncode == 0
    with psycopg.connect(url, autocommit=True) as session:
        as_if_made_by(FORMER[:40], session)
    done = migrate(url)
    assert done.returncode == 1
    assert "lacks 3 of the 43 former migrations" in done.stderr
    assert "`manage.py migrate` of commit 723c9e82" in done.stderr
