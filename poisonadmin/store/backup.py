"""Backup and restore of everything that PoisonAdmin keeps in its database, by `pg_dump` and `pg_restore`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from django.core.management import CommandError, call_command
from django.db import connection

from poisonadmin.embedded.placement import postgres_programs
from poisonadmin.embedded.processes import EmbeddedError
from poisonadmin.store.roles import as_owner


class BackupFailed(CommandError):
    """Raised when nothing was written to the file, or to the database; the text says why."""


def back_up(file: Path) -> None:
    """Write the database of one moment to `file` (mode 600), whole or not at all; what runs goes on meanwhile.

    Owners and rights stay out of it: the restored tables belong to whoever restores them. Errors: `BackupFailed`.
    """
    if file.exists():
        raise BackupFailed(f"{file} exists already")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(draft, "xb", opener=_private) as output:
            _run("pg_dump", ["--format=custom", "--no-owner", "--no-acl"], output)
            os.fsync(output.fileno())
        draft.rename(file)
    except OSError as error:
        raise BackupFailed(str(error)) from error
    finally:
        draft.unlink(missing_ok=True)


def bring_back(file: Path) -> None:
    """Bring the tables of a backup into the empty database, in one transaction, and up to this version.

    Errors: `BackupFailed`; the database is as empty as before, or restored and not yet migrated.
    """
    if not file.is_file():
        raise BackupFailed(f"{file} is no file")
    with as_owner():
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            if cursor.fetchone() != (0,):
                raise BackupFailed("the database has tables; restore into an empty one")
        options = ["--no-owner", "--no-acl", "--single-transaction", "--exit-on-error"]
        with file.open("rb") as source:
            _run("pg_restore", [*options, f"--dbname={connection.settings_dict['NAME']}"], input_from=source)
        with connection.cursor() as cursor:
            # Statistics are not in the file, and the claims of a large backlog are planned by them.
            cursor.execute("ANALYZE")
    call_command("migrate", interactive=False, verbosity=0)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _run(
    program: str, options: Sequence[str], output: IO[bytes] | None = None, input_from: IO[bytes] | None = None
) -> None:
    """Run a program of PostgreSQL on the default connection's database; the password is in no command line."""
    arguments, environment = connection.client.settings_to_cmd_args_env(connection.settings_dict, [])
    done = subprocess.run(
        [_path_of(program), *arguments[1:-1], *options],
        env=os.environ | {"PGDATABASE": arguments[-1]} | (environment or {}),
        stdin=input_from or subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise BackupFailed(f"{program} failed: {done.stderr.decode(errors='replace').strip()[-2000:]}")


def _path_of(program: str) -> str:
    """Return where the program is: that of the embedded PostgreSQL, else the one on the PATH."""
    try:
        return str(postgres_programs(None) / program)
    except EmbeddedError:
        if found := shutil.which(program):
            return found
        raise BackupFailed(f"{program} is not on the PATH: install the client programs of PostgreSQL") from None
