"""The services that the benchmarks run on: their own PostgreSQL, fully durable, and their own Valkey."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import PROJECT
from tests.services import Services, start_services

if TYPE_CHECKING:
    from benchmarks.live import Live


# The benchmarks' own handlers, and those of the tests, which know every way to die.
HANDLERS = (PROJECT / "benchmarks" / "sandboxed", PROJECT / "tests" / "handlers")


@dataclass(frozen=True)
class World:
    """What every benchmark is given: where it may write, its services, how much of the full size to do."""

    directory: Path
    services: Services
    scale: float
    rounds: int
    running: "Live | None" = None

    @property
    def live(self) -> "Live":
        """The running system, for the benchmarks that are given one."""
        assert self.running is not None
        return self.running

    def count(self, full: int, *, least: int = 100) -> int:
        """Return how many things to do where `full` is the whole size."""
        return max(least, round(full * self.scale))


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a directory that goes away; PostgreSQL's own account may enter it."""
    directory = Path(tempfile.mkdtemp(prefix="poisonadmin-bench-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def make_world(*, scale: float, rounds: int) -> Iterator[World]:
    """Yield the running services with all tables made, and Django set up in this process to use them."""
    with temporary_directory() as directory:
        home = directory / "home"
        services = start_services(home, durable=True)
        try:
            os.environ |= {
                "DATABASE_URL": services.database_url,
                "REDIS_URL": services.redis_url,
                "POISONADMIN_HOME": str(home),
                "POISONADMIN_ALLOW_LOOPBACK": "1",
                "POISONADMIN_SOURCE_ROOTS": str(directory / "dropped"),
                "POISONADMIN_HANDLER_PATH": os.pathsep.join(map(str, HANDLERS)),
                "POISONADMIN_LOG_LEVEL": "WARNING",
                "DJANGO_SETTINGS_MODULE": "poisonadmin.settings",
                "JAVA_HOME": str(java_home(home, os.environ)),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(directory / "spark"),
            }
            _set_up_django()
            yield World(directory, services, scale, rounds)
        finally:
            services.stop()


def _set_up_django() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
