"""A database that the former migrations made: taken over, and refused where some of them lack. Others are refused, too.

`tests/runs/test_migration.py` says what becomes of its rows.

`former_tables.sql.gz` is what `pg_dump --inserts` wrote of the empty database of 723c9e82.
"""

import gzip
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.store.schema import LAST_FORMER
from tests.faults.f27_migrations import shape
from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]
FORMER = gzip.decompress(Path(__file__).with_name("former_tables.sql.gz").read_bytes()).decode()


@pytest.fixture
def made(services: Services) -> Iterator[Callable[[str], str]]:
    """Yield what makes a database by a script, as a role that owns no other, and returns its URL."""
    at = conninfo_to_dict(services.superuser_url)
    login = f"{at['user']}:{at['password']}" if at.get("password") else at["user"]
    names: list[str] = []
    with psycopg.connect(services.superuser_url, autocommit=True) as session:

        def make(script: str, options: str = "") -> str:
            names.append(f"former_{secrets.token_hex(4)}")
            session.execute(f"CREATE DATABASE {names[-1]} {options}")
            url = f"postgresql://{login}@{at['host']}:{at['port']}/{names[-1]}"
            with psycopg.connect(url, autocommit=True) as other:
                other.execute(f"SET check_function_bodies = false; {script}")
            return url

        yield make
        for name in names:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(url: str) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py migrate`."""
    command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"DATABASE_URL": url}, capture_output=True, text=True)


def schema(url: str) -> set[tuple[Any, ...]]:
    """Return what a database's tables are, without what a dump writes otherwise and names that a renamed column keeps.

    A dump writes `ANY (ARRAY['a'::text])` for what was `ANY ((ARRAY['a'::varchar])::text[])`.
    """
    plain = re.compile(r"::(text|character varying)(\[\])?|[()\s]")
    return {(*one[:3], plain.sub("", one[3]), *one[4:]) for one in shape(url) if not str(one[2]).endswith("_not_null")}


def test_a_database_of_the_former_migrations_gets_the_tables_of_a_new_one(made: Callable[[str], str]) -> None:
    former, new = made(FORMER), made("")
    for url in (former, new):
        done = migrate(url)
        assert done.returncode == 0, done.stderr
    assert schema(former) == schema(new)
    with psycopg.connect(former) as session:
        applied = session.execute("SELECT name FROM django_migrations WHERE app = 'store'").fetchall()
    assert {("store", name) for (name,) in applied} == {
        one for one in MigrationLoader(None).disk_migrations if one[0] == "store"
    }


def test_a_database_with_some_of_the_former_migrations_is_refused(made: Callable[[str], str]) -> None:
    done = migrate(made(f"{FORMER}DELETE FROM django_migrations WHERE name = '{LAST_FORMER}'"))
    assert done.returncode == 1
    assert "has 0042_near_rows, which no migration of this version follows" in done.stderr
    assert "`manage.py migrate` of commit 723c9e82" in done.stderr


def test_a_database_that_is_not_in_utf8_is_refused(made: Callable[..., str]) -> None:
    done = migrate(made("", "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"))
    assert done.returncode == 1
    assert "The database is in SQL_ASCII, and must be in UTF8." in done.stderr
    assert "ENCODING 'UTF8' TEMPLATE template0" in done.stderr
