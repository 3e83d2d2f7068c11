"""What the supervisor reads from its environment, and what it exports to its children."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import MARK, EmbeddedError

DEFAULT_PORT = 8000
# The owner's address of the database, which no process keeps that goes on running.
MIGRATION = "MIGRATION_DATABASE_URL"


@dataclass(frozen=True)
class Wishes:
    """How the user wants PoisonAdmin to be started."""

    home: Path
    port: int
    database_url: str | None
    migration_database_url: str | None
    redis_url: str | None


def read_wishes(environment: Mapping[str, str], home: Path | None = None) -> Wishes:
    """Return the wishes in `environment`, `home` going before POISONADMIN_HOME; raise `EmbeddedError` for a bad one."""
    chosen = home or Path(environment.get("POISONADMIN_HOME") or PROJECT / ".poisonadmin")
    return Wishes(
        home=chosen.expanduser().resolve(),
        port=_port(environment.get("POISONADMIN_PORT") or str(DEFAULT_PORT)),
        database_url=environment.get("DATABASE_URL") or None,
        migration_database_url=environment.get(MIGRATION) or None,
        redis_url=environment.get("REDIS_URL") or None,
    )


def exported(
    environment: Mapping[str, str], wishes: Wishes, *, database_url: str, redis_url: str, java_home: Path
) -> dict[str, str]:
    """Return the environment of every process of PoisonAdmin; the one that migrates has MIGRATION besides."""
    path = [str(PROJECT), *filter(None, [environment.get("PYTHONPATH")])]
    return {name: value for name, value in environment.items() if name != MIGRATION} | {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "POISONADMIN_HOME": str(wishes.home),
        "POISONADMIN_PORT": str(wishes.port),
        "JAVA_HOME": str(java_home),
        # Spark starts its own Python processes, which import our packages too.
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": environment.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_LOCAL_DIRS": environment.get("SPARK_LOCAL_DIRS", str(wishes.home / "spark")),
        # Everything here runs on the loopback interface, so destinations may stand there too.
        "POISONADMIN_ALLOW_LOOPBACK": environment.get("POISONADMIN_ALLOW_LOOPBACK", "1"),
        "PYTHONUNBUFFERED": "1",
        # Celery's alarm at being started as root is about pickle, which our workers do not take.
        "PYTHONWARNINGS": environment.get("PYTHONWARNINGS", "ignore:You're running the worker with superuser"),
        MARK: str(wishes.home),
    }


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise EmbeddedError(f"POISONADMIN_PORT={text} is not a port: choose a number from 1 to 65535.")
    return int(text)
