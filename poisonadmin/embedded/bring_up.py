"""`make up` and `make demo`: everything in order, then supervision, then the end in reverse order."""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import psutil

from poisonadmin.core.domain.secret_settings import (
    DATABASE_URL,
    FILE_OF,
    MIGRATION_DATABASE_URL,
    SECRET_KEY,
    without_secrets,
    write_private,
)
from poisonadmin.embedded import postgres, spark
from poisonadmin.embedded.environment import Wishes, in_files
from poisonadmin.embedded.logs import Log, wants_colour
from poisonadmin.embedded.plan import PROJECT, SERVICES, Plan, bring_back_spec
from poisonadmin.embedded.ports import require_free
from poisonadmin.embedded.processes import MARK, ChildSpec, EmbeddedError, kill, marked
from poisonadmin.embedded.services import database, start_services
from poisonadmin.embedded.supervisor import NAME, StopRequested, Supervisor

_PR_SET_PDEATHSIG = 1
_WEB_SECONDS = 60.0
# Counted from the wish to stop. Ten seconds are promised, but for a database that has a long checkpoint to write.
_STOP_GROUPS: Sequence[tuple[Callable[[ChildSpec], bool], float]] = (
    (lambda spec: spec.name not in {*SERVICES, spark.NAME}, 7.5),
    (lambda spec: spec.name != "postgres", 9.3),
    (lambda spec: spec.name == "postgres", postgres.STOP_SECONDS),
)
_FOR_COMMANDS = (
    *FILE_OF.values(),
    *("POISONADMIN_HOME", "POISONADMIN_PORT", "JAVA_HOME", "PYSPARK_PYTHON"),
    *("POISONADMIN_HANDLER_PATH", "POISONADMIN_SOURCE_ROOTS", "POISONADMIN_ARCHIVE"),
    *("POISONADMIN_ALLOW_LOOPBACK", "POISONADMIN_ALLOWED_NETWORKS"),
)


class HomeInUse(EmbeddedError):
    """Raised when another supervisor runs on the same data directory."""


def _claim_home(home: Path) -> TextIO:
    """Make `home` where it is missing, and return its lock, held until the file is closed or this process ends."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(home / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+")
        os.fchmod(file.fileno(), 0o600)  # whoever can open it can lock it
    except OSError as error:
        raise EmbeddedError(
            f"The data directory {home} cannot be used: {error.strerror}. Set POISONADMIN_HOME."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        written = file.read().strip()
        file.close()
        is_there = written.isdecimal() and psutil.pid_exists(int(written))
        holder = f"process {written}" if is_there else "its lock is held by a process that is not named"
        raise HomeInUse(
            f"PoisonAdmin already runs on {home} ({holder}). Stop it first, or start this one elsewhere: "
            "POISONADMIN_HOME=another/directory POISONADMIN_PORT=8001 make up"
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _watch_make(request_stop: Callable[[], None]) -> Callable[[], None] | None:
    """Return a step to call often, which asks for the stop once make was told to stop; None where make is no parent."""
    parent = os.getppid()
    if sys.platform != "linux" or _command_of(parent) not in {"make", "gmake"}:
        return None
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if not _catches(parent, signal.SIGINT):
        return None

    def step() -> None:
        # On a signal make gives up its handler and waits for its children, which /proc shows.
        if os.getppid() != parent or not _catches(parent, signal.SIGINT):
            request_stop()

    return step


def _command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def _catches(process: int, wanted: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (wanted - 1) & 1)


def run(wishes: Wishes, plan: Plan) -> None:
    """Start everything and keep it running until SIGINT or SIGTERM; when this returns, no process is left.

    Raises `EmbeddedError` when something cannot be started; no process is left then either.
    """
    with _supervising(wishes) as supervisor:
        require_free(wishes.port, "POISONADMIN_PORT")
        watch = _watch_make(supervisor.request_stop)
        _start_everything(supervisor, wishes, plan)
        supervisor.supervise([watch] if watch else [])


def bring_back(wishes: Wishes, file: Path) -> None:
    """Bring a backup into the database of a new home, and end; raise `EmbeddedError` when nothing was restored."""
    is_done = False
    with _supervising(wishes) as supervisor:
        database_url, owner_url = database(supervisor, wishes)
        secrets = {DATABASE_URL: database_url, MIGRATION_DATABASE_URL: owner_url, SECRET_KEY: wishes.secret_key}
        files = in_files(wishes.home, {name: value for name, value in secrets.items() if value})
        own = {"POISONADMIN_HOME": str(wishes.home), MARK: str(wishes.home)}
        supervisor.run(bring_back_spec(without_secrets(os.environ) | files | own, file.absolute()))
        is_done = True
    if not is_done:
        raise EmbeddedError("The restore was interrupted; nothing was restored.")


@contextlib.contextmanager
def _supervising(wishes: Wishes) -> Iterator[Supervisor]:
    """Yield a supervisor of the home; it ends everything when the context is left, and with it when a signal came."""
    with _claim_home(wishes.home):
        kill(marked(wishes.home))
        log = Log(sys.stdout.fileno(), colour=wants_colour(sys.stdout.fileno(), os.environ))
        supervisor = Supervisor(log)
        watcher = _start_watcher(wishes.home)
        supervisor.keep_away_from(watcher)
        try:
            with contextlib.suppress(StopRequested):
                yield supervisor
        finally:
            log.say(NAME, "stopping")
            supervisor.stop_all(_STOP_GROUPS)
            watcher.kill()
            watcher.wait()
            log.say(NAME, "stopped")
            log.flush(1.0)


def _start_everything(supervisor: Supervisor, wishes: Wishes, plan: Plan) -> None:
    environment, owner_url = start_services(supervisor, wishes, plan)
    _write_environment(wishes.home, environment)
    supervisor.run(*plan.before(environment | in_files(wishes.home, {MIGRATION_DATABASE_URL: owner_url})))
    for spec in plan.workers(environment, wishes.home):
        supervisor.start(spec)
    first_start = supervisor.run_for_output(plan.bootstrap(environment))
    supervisor.start(plan.web(environment, wishes.port))
    address = f"http://127.0.0.1:{wishes.port}"
    supervisor.wait_until_ready("web", lambda: _answers(f"{address}/healthz"), seconds=_WEB_SECONDS)
    for spec in plan.after(environment, wishes.home):
        supervisor.start(spec)
    supervisor.log.say_plainly(_welcome(address, wishes.home, first_start))


def _answers(address: str) -> bool:
    # No proxy: the address is our own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(OSError), opener.open(address, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def _start_watcher(home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "poisonadmin.embedded.processes", str(home)],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd=PROJECT,
        env={name: value for name, value in without_secrets(os.environ).items() if name != MARK},
    )


def _write_environment(home: Path, environment: dict[str, str]) -> None:
    """Keep what a command run by hand beside the supervisor needs (`set -a; . .poisonadmin/environment`)."""
    lines = [f"{name}='{environment[name]}'\n" for name in _FOR_COMMANDS if name in environment]
    write_private(home / "environment", "".join(lines))


def _welcome(address: str, home: Path, first_start: str) -> str:
    lines = [
        f"PoisonAdmin is ready at {address}/",
        *(line.strip() for line in first_start.splitlines() if line.strip()),
        f"For commands run by hand: set -a; . {home / 'environment'}; set +a",
        "Ctrl-C stops everything.",
    ]
    rule = "-" * max(map(len, lines))
    return "\n".join(["", rule, *lines, rule, ""])
