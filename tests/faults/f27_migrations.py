"""F27: a migration killed in the middle, and run again."""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.faults.run import Result
from tests.services import Services, start_services
from tests.whole_system.installation import PROJECT

FAMILY, NAME = "F27", "migration killed"
_APPLIED = "SELECT count(*) FROM django_migrations"
_SHAPE = """
SELECT 'column', table_name, column_name, data_type, coalesce(column_default, ''), is_nullable
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', ''
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'option', relname, array_to_string(reloptions, ','), '', '', '' FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL
ORDER BY 1, 2, 3
"""


def run(seed: int) -> Result:
    """Kill `migrate` in the middle, run it again, and compare the tables with those of a migration left in peace."""
    dice = random.Random(f"{FAMILY} {seed}")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="poisonadmin-migrations-") as directory:
        home = Path(directory)
        home.chmod(0o755)
        services = start_services(home, durable=False)
        try:
            peaceful = _url(services, "peaceful")
            assert _migrating(home, peaceful).wait() == 0
            with psycopg.connect(peaceful) as session:
                ((total,),) = session.execute(_APPLIED).fetchall()
            troubled = _url(services, "troubled")
            kills = sorted(dice.sample(range(1, total), 2))
            for applied in kills:
                _kill_at(home, troubled, applied)
            began = time.monotonic()
            if _migrating(home, troubled).wait():
                wrong.append(f"migrate fails after it was killed at {kills} of {total}: {_log(home)}")
            took = time.monotonic() - began
            if not wrong and (difference := set(shape(peaceful)) ^ set(shape(troubled))):
                wrong.append(f"the tables differ: {sorted(difference)[:5]}")
        finally:
            services.stop()
    moment = f"kill -9 of migrate after {kills[0]} and after {kills[1]} of {total} migrations"
    return Result(FAMILY, NAME, seed, moment, 0, 0, 0, 0, 0, took, tuple(wrong))


def _kill_at(home: Path, url: str, applied: int) -> None:
    """Kill `migrate` once so many migrations are applied, in the middle of the next."""
    process = _migrating(home, url)
    with psycopg.connect(url, autocommit=True) as session:
        while process.poll() is None and _count(session) < applied:
            time.sleep(0.002)
    process.kill()
    process.wait()


def _count(session: "psycopg.Connection[Any]") -> int:
    with contextlib.suppress(psycopg.errors.UndefinedTable):
        row = session.execute(_APPLIED).fetchone()
        return int(row[0]) if row else 0
    return 0


def _migrating(home: Path, url: str) -> "subprocess.Popen[bytes]":
    environment = dict(os.environ) | {"DATABASE_URL": url, "POISONADMIN_HOME": str(home)}
    with (home / "migrate.log").open("ab") as log:
        command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
        return subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _log(home: Path) -> str:
    return (home / "migrate.log").read_text(errors="replace")[-800:]


def _url(services: Services, name: str) -> str:
    """Make an empty database and return its address."""
    with psycopg.connect(services.database_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    parts = conninfo_to_dict(services.database_url)
    return f"postgresql://{parts['user']}:{parts['password']}@{parts['host']}:{parts['port']}/{name}"


def shape(url: str) -> list[tuple[Any, ...]]:
    """Return columns, indexes, constraints, triggers and storage options of a database's tables."""
    with psycopg.connect(url) as session:
        return session.execute(_SHAPE).fetchall()


RUNS: dict[str, Callable[[int], Result]] = {f"{FAMILY} {NAME}": run}
