"""`manage.py migrate` beside processes that hold the tables: it waits shortly, again and again, and says so."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]
MIGRATE = """
import django
django.setup()
from django.core.management import CommandError, call_command
from django.db import connection
from poisonadmin.store.management.commands import migrate
migrate.TRIES = {tries}
try:
    call_command("migrate", {arguments} verbosity=0, interactive=False)
except CommandError as error:
    raise SystemExit(str(error))
with connection.cursor() as cursor:
    cursor.execute("SHOW lock_timeout")
    print(cursor.fetchone()[0])
"""
# The second migration of `auth` changes this table.
HOLD = "BEGIN; LOCK TABLE auth_permission IN ACCESS SHARE MODE"


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    """Yield a database with the first migration of `auth` alone."""
    name = f"beside_{secrets.token_hex(4)}"
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        url = f"{services.superuser_url.rpartition('/')[0]}/{name}"
        assert migrate(url, arguments="'auth', '0001',").returncode == 0
        yield url
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(url: str, *, tries: int = 30, arguments: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", "-c", MIGRATE.format(tries=tries, arguments=arguments)]
    environment = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_a_migration_ends_with_one_sentence_while_others_hold_its_tables_and_goes_on_later(url: str) -> None:
    with psycopg.connect(url) as other:
        other.execute(HOLD)
        held = migrate(url, tries=2)
        assert held.returncode == 1
        assert held.stderr.splitlines()[-1] == (
            "Other processes held the tables in each of 2 tries: stop beat, workers and web processes, and run "
            "`manage.py migrate` again; it goes on where it stopped."
        )
        assert "Traceback" not in held.stderr
        other.rollback()
    done = migrate(url)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), "whoever called it waits for locks as before"


def test_a_migration_goes_through_when_the_others_let_go_and_keeps_nobody_waiting(url: str) -> None:
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as reader:
        other.execute(HOLD)
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", MIGRATE.format(tries=30, arguments="")],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert "trying again" in process.stderr.readline()
            # Who comes behind the waiting migration waits no longer than it does.
            reader.execute("SET statement_timeout = '5s'")
            for _ in range(10):
                reader.execute("SELECT count(*) FROM auth_permission")
                time.sleep(0.2)
            other.rollback()
        assert process.returncode == 0
