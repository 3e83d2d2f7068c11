"""The embedded PostgreSQL: its programs come from a package, its files stand in the data directory, we run it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from poisonadmin.core.domain.secret_settings import kept_secret
from poisonadmin.embedded.placement import data_parent, postgres_programs, socket_directory
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import Account, ChildSpec, EmbeddedError, database_account, processes_where, run_as

DATABASE = "poisonadmin"
SUPERUSER = "postgres"
# The last checkpoint writes at most `shared_buffers`, and waits until the disk has all that was written before.
STOP_SECONDS = 60.0
OWNER, RUNNING = "poisonadmin_owner", "poisonadmin"

# Databases of before there were two roles belong to the one that runs; `manage.py migrate` then gives it its rights.
_SEPARATE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {owner_name}) THEN CREATE ROLE {owner}; END IF;
    IF pg_has_role({running_name}, 'pg_monitor', 'MEMBER') THEN
        REVOKE pg_monitor, pg_checkpoint FROM {running};
    END IF;
END $$;
ALTER ROLE {owner} LOGIN CREATEDB PASSWORD {password};
ALTER ROLE {running} NOCREATEDB;
GRANT pg_monitor, pg_checkpoint TO {owner};
REASSIGN OWNED BY {running} TO {owner};
ALTER DATABASE {database} OWNER TO {owner};
"""
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_compression": "on",
    "max_wal_size": "4GB",
    "client_connection_check_interval": "500ms",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
    "log_line_prefix": "",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "lc_messages": "C",
}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB"}


def processes_in(directory: Path) -> list[psutil.Process]:
    """Return the processes whose working directory is `directory`: for PostgreSQL's data, its server and back ends."""
    whole = os.path.realpath(directory)
    return processes_where(lambda process: process.cwd() == whole)


def takes_sessions(url: str) -> bool:
    """Return whether the server of a database takes a session now."""
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _end_postmaster_of(data: Path, seconds: float = 10) -> None:
    """Return when no process works on `data` any more and no stale `postmaster.pid` is in the way.

    A server that was killed leaves back ends which end by themselves at their next wait, and hold the shared memory
    until then; a new server refuses to start meanwhile. They are given a moment, then ended.
    """
    deadline = time.monotonic() + seconds
    rounds = ((psutil.Process.terminate, 1.0), (psutil.Process.kill, seconds))
    for end, patience in rounds:
        left = processes_in(data)
        if not left:
            break
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        psutil.wait_procs(left, timeout=min(patience, max(0.0, deadline - time.monotonic())))
    if left := processes_in(data):
        raise EmbeddedError(f"Processes {[process.pid for process in left]} still use {data} and do not end.")
    # Its number may by now belong to a stranger, whom PostgreSQL would take for a running server.
    (data / "postmaster.pid").unlink(missing_ok=True)


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL server whose files are ready and whose process may or may not be running."""

    programs: Path
    data: Path
    port: int
    password: str
    owner_password: str
    superuser_password: str
    account: Account | None

    @property
    def url(self) -> str:
        """The application's address of its database; the role owns nothing."""
        return f"postgresql://{RUNNING}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def owner_url(self) -> str:
        """The address for migrations; the role owns the database and may create others."""
        return f"postgresql://{OWNER}:{self.owner_password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def superuser_url(self) -> str:
        """The address for what only a superuser may do; the application never uses it."""
        return f"postgresql://{SUPERUSER}:{self.superuser_password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def spec(self) -> ChildSpec:
        """The process of the server; a *fast* shutdown ends every session and writes a checkpoint."""
        return ChildSpec(
            name="postgres",
            command=[self.programs / "postgres", "-D", self.data],
            environment=_environment(),
            account=self.account,
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            clear_the_way=self.clear_the_way,
        )

    def is_ready(self) -> bool:
        """Return whether the server takes a session of the application's role now."""
        # A session that comes too early is refused with a FATAL line in the log, so its own word is read first.
        with contextlib.suppress(OSError):
            if "ready" not in (self.data / "postmaster.pid").read_text():
                return False
        return takes_sessions(self.url)

    def separate_roles(self) -> None:
        """Let the role `OWNER` have the database and all that is in it, and `RUNNING` nothing of it.

        Call it when the server is ready, before `owner_url`.
        """
        names = {"owner": OWNER, "running": RUNNING, "database": DATABASE}
        statements = sql.SQL(_SEPARATE).format(
            owner_name=sql.Literal(OWNER),
            running_name=sql.Literal(RUNNING),
            password=sql.Literal(self.owner_password),
            **{key: sql.Identifier(name) for key, name in names.items()},
        )
        with psycopg.connect(self.superuser_url) as session:
            session.execute(statements)

    def clear_the_way(self) -> None:
        """End what is left of an earlier server on these files, so that the next one finds its memory and port free."""
        _end_postmaster_of(self.data)


def prepare(home: Path, *, durable: bool = True) -> Postgres:
    """Return the server of `home`, its files initialised on first use, configured for a port that is free now.

    `durable=False` trades the safety of what is stored for speed: for tests only.
    """
    account = database_account()
    parent = data_parent(home, account)
    if (parent / "data").exists() and not (home / "postgres-password").exists():
        raise EmbeddedError(f"{parent / 'data'} is there, and its password, {home / 'postgres-password'}, is gone.")
    postgres = Postgres(
        programs=postgres_programs(account),
        data=parent / "data",
        port=free_port(),
        password=kept_secret(home / "postgres-password"),
        owner_password=kept_secret(home / "postgres-owner-password"),
        superuser_password=kept_secret(home / "postgres-superuser-password"),
        account=account,
    )
    if not postgres.data.exists():
        _initialise(postgres, durable=durable)
    postgres.clear_the_way()
    _configure(postgres, socket_directory(parent, account), durable=durable)
    return postgres


def _initialise(postgres: Postgres, *, durable: bool) -> None:
    """Create the cluster, the role and the database beside their final place, then move them there in one step."""
    draft = postgres.data.with_name("data.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    password_file = draft.with_name("superuser-password")
    password_file.touch(mode=0o600)
    password_file.write_text(postgres.superuser_password)
    if postgres.account:
        for path in (draft, password_file):
            os.chown(path, postgres.account.user_id, postgres.account.group_id)
    try:
        _run(
            postgres,
            [
                *("initdb", "-D", draft, "-U", SUPERUSER, f"--pwfile={password_file}", "--auth=scram-sha-256"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *(() if durable else ("--no-sync",)),
            ],
        )
    finally:
        password_file.unlink()
    # Single-user mode takes one statement a line; no server has to run, so no half-made database is ever reachable.
    statements = [
        f"CREATE ROLE {RUNNING} LOGIN PASSWORD '{postgres.password}'",
        f"CREATE DATABASE {DATABASE}",
    ]
    _run(postgres, ["postgres", "--single", "-j", "-D", draft, "postgres"], ";\n\n".join([*statements, ""]))
    draft.rename(postgres.data)


def _run(postgres: Postgres, command: Sequence[str | Path], text: str = "") -> None:
    program, *arguments = map(str, command)
    done = subprocess.run(
        [str(postgres.programs / program), *arguments],
        input=text.encode(),
        env=_environment(),
        cwd="/",
        # Ctrl-C is for the supervisor, which lets the files be finished first.
        start_new_session=True,
        **run_as(postgres.account),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    if done.returncode or "ERROR:" in output:
        raise EmbeddedError(f"{program} failed ({done.returncode}):\n{output.strip()}")


def _configure(postgres: Postgres, socket_directory: Path, *, durable: bool) -> None:
    """Write the whole configuration anew: the file is ours, and a start always means what this version says."""
    settings = _SETTINGS | (_DURABLE if durable else _THROWAWAY)
    settings |= {"port": str(postgres.port), "unix_socket_directories": str(socket_directory)}
    lines = [f"{name} = '{value}'" for name, value in settings.items()]
    file = postgres.data / "postgresql.conf"
    file.write_text("\n".join(["# Written by poisonadmin.embedded at each start.", *lines, ""]))
    if postgres.account:
        os.chown(file, postgres.account.user_id, postgres.account.group_id)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
