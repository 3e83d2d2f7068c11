"""A supervisor under test, seen from outside: its output, its processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from poisonadmin.core.domain.secret_settings import DATABASE_URL, REDIS_URL, secret_setting, without_secrets
from poisonadmin.embedded.placement import data_parent
from poisonadmin.embedded.postgres import processes_in
from poisonadmin.embedded.processes import database_account, marked

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


class Running:
    """A started supervisor of `tests.embedded.small_plan`."""

    def __init__(self, home: Path, port: int, *, under: Sequence[str] = (), **environment: str) -> None:
        self.home = home.resolve()
        self.port = port
        self.output_path = home.with_name(f"{home.name}-{port}-{time.monotonic_ns()}.log")
        names = {"POISONADMIN_HOME": str(home), "POISONADMIN_PORT": str(port)}
        kept = without_secrets(os.environ)
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                [*under, sys.executable, "-m", "tests.embedded.small_plan"],
                cwd=PROJECT,
                env=kept | names | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A shell starts what it puts into the background with SIGINT ignored, and children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
            )

    @property
    def output(self) -> str:
        """What it has printed up to now."""
        return self.output_path.read_text(errors="replace")

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the services, as commands run by hand find them."""
        lines = (self.home / "environment").read_text().splitlines()
        said = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}
        return {name: secret_setting(said, name) for name in (DATABASE_URL, REDIS_URL)}

    @property
    def superuser_url(self) -> str:
        """The address for what only a superuser may do."""
        secret = (self.home / "postgres-superuser-password").read_text().strip()
        return f"postgresql://postgres:{secret}@{self.urls['DATABASE_URL'].partition('@')[2]}"

    def until(self, what: str | Callable[[], bool]) -> None:
        """Return when the pattern `what` has been printed, or `what()` is true; fail, with the output, if never."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (re.search(what, self.output) if isinstance(what, str) else what()):
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.output}"
            time.sleep(0.05)

    def pid_of(self, name: str) -> int:
        """Return the number of the process last started as `name`."""
        return int(re.findall(rf"started {name} \(process (\d+)\)", self.output)[-1])

    def signal(self, wanted: signal.Signals) -> None:
        """Send `wanted` to the process that was started."""
        self.process.send_signal(wanted)

    def left(self) -> list[psutil.Process]:
        """Return its processes that are still alive, but for the supervisor."""
        services = [psutil.Process(self.pid_of(name)) for name in ("postgres", "valkey") if self._alive(name)]
        back_ends = processes_in(data_parent(self.home, database_account()) / "data")
        return [*marked(self.home), *services, *back_ends]

    def until_none_left(self) -> None:
        """Return when none of its processes is alive; fail when some stay."""
        self.until(lambda: not self.left())

    def _alive(self, name: str) -> bool:
        with contextlib.suppress(psutil.Error, IndexError):
            return psutil.Process(self.pid_of(name)).status() != psutil.STATUS_ZOMBIE
        return False
