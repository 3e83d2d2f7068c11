"""The first user and the first token of an installation."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.store.models.access import Access
from poisonadmin.system.commands.tokens import create

ADMIN = "admin"
TOKEN_NAME = "bootstrap"  # noqa: S105  (a name, not a secret)
TOKEN_FILE = "admin-token"  # noqa: S105
PASSWORD_BYTES = 15


@dataclass(frozen=True)
class Bootstrapped:
    """`password` is known to nobody else and shown this once."""

    username: str
    password: str
    token_file: Path


def bootstrap(home: Path, *, password: str | None = None) -> Bootstrapped | None:
    """Create the user `admin` and a token with every scope in `home/admin-token` (mode 600); None where `admin` exists.

    The password is random unless given.
    """
    if User.objects.filter(username=ADMIN).exists():
        return None
    password = password or secrets.token_urlsafe(PASSWORD_BYTES)
    path = home / TOKEN_FILE
    try:
        with transaction.atomic():
            user = User.objects.create_user(ADMIN, password=password)
            Access.objects.create(user=user, role=Role.ADMIN)
            audit.record("system", "user.created", "user", ADMIN, details={"role": Role.ADMIN})
            token = create(user, TOKEN_NAME, scopes=list(Permission), by="system")
            # Written before the commit: a token that is in force and in no file would be of no use to anyone.
            _write_private(path, token.text)
    except IntegrityError:
        # Another start made it a moment before us.
        return None
    return Bootstrapped(ADMIN, password, path)


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    draft.replace(path)
