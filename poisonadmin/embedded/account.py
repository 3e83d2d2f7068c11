"""The unprivileged account that PostgreSQL runs under when we are started as root, which it refuses to run as."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass

from poisonadmin.embedded.errors import EmbeddedError

ACCOUNT_NAME = "poisonadmin-db"


@dataclass(frozen=True)
class Account:
    """A user of the operating system."""

    name: str
    user_id: int
    group_id: int


def database_account() -> Account | None:
    """Return the account that PostgreSQL must run under, or None where it can run under our own.

    Started as root, a system account is created once. Where that is not possible (no `useradd`, a
    read-only /etc) it is `nobody`: initdb insists on a user that has a name.
    """
    if os.geteuid() != 0:
        return None
    account = _find(ACCOUNT_NAME) or _create() or _find("nobody")
    if account is None:
        raise EmbeddedError(
            "PostgreSQL does not run as root, and there is no unprivileged user to run it under: "
            f"create one named {ACCOUNT_NAME}, start as an ordinary user, or set DATABASE_URL."
        )
    return account


def _find(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid)


def _create() -> Account | None:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        return None
    subprocess.run(
        [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME],
        capture_output=True,
        check=False,
    )
    # Another start may have created it a moment before us, so the answer is in the table, not in the exit status.
    return _find(ACCOUNT_NAME)
