"""Settings that are secrets. Each stands in a file that `NAME_FILE` names, or in the variable `NAME` itself, which
everybody can read who may read the process's environment.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

DATABASE_URL, REDIS_URL, SECRET_KEY = "DATABASE_URL", "REDIS_URL", "POISONADMIN_SECRET_KEY"
# A URL of Spark Connect may hold a token.
SPARK_REMOTE = "SPARK_REMOTE"
# A URL of a mail server may hold a login.
MAIL_URL = "POISONADMIN_MAIL_URL"
# The secret by which the provider of single sign-on knows us.
OIDC_CLIENT_SECRET = "POISONADMIN_OIDC_CLIENT_SECRET"  # noqa: S105  (the name of a variable)
# What encrypts the secrets that the database holds.
ENCRYPTION_KEYS = "POISONADMIN_ENCRYPTION_KEYS"
# The owner's address of the database, which no process knows that goes on running.
MIGRATION_DATABASE_URL = "MIGRATION_DATABASE_URL"
BROKER_PASSWORD = "POISONADMIN_BROKER_PASSWORD"  # noqa: S105  (the name of a variable)
FILE_OF = {
    DATABASE_URL: "DATABASE_URL_FILE",
    MIGRATION_DATABASE_URL: "MIGRATION_DATABASE_URL_FILE",
    REDIS_URL: "REDIS_URL_FILE",
    SECRET_KEY: "POISONADMIN_SECRET_KEY_FILE",
    SPARK_REMOTE: "SPARK_REMOTE_FILE",
    MAIL_URL: "POISONADMIN_MAIL_URL_FILE",
    OIDC_CLIENT_SECRET: "POISONADMIN_OIDC_CLIENT_SECRET_FILE",
    ENCRYPTION_KEYS: "POISONADMIN_ENCRYPTION_KEYS_FILE",
}
MAX_CHARS = 65_536


class UnusableSecret(ValueError):
    """Raised when a secret cannot be read; the text names the variable and never a value."""


def secret_setting(environment: Mapping[str, str], name: str) -> str:
    """Return the secret, without the white space around it; empty where there is none. Errors: `UnusableSecret`.

    >>> secret_setting({"REDIS_URL": "redis://127.0.0.1/0"}, REDIS_URL)
    'redis://127.0.0.1/0'
    """
    variable = FILE_OF[name]
    if not (path := environment.get(variable, "")):
        return environment.get(name, "")
    if environment.get(name):
        raise UnusableSecret(f"{variable} and {name} are both set: keep one")
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(MAX_CHARS + 1).strip()
    except (OSError, ValueError, RuntimeError):
        raise UnusableSecret(f"{variable} must name a text file that this process can read") from None
    if not 0 < len(text) <= MAX_CHARS:
        raise UnusableSecret(f"{variable} names a file that is empty or too long")
    return text


def database_url(environment: Mapping[str, str]) -> str:
    """Return the URL of the database for a task, which runs without settings. Errors: `UnusableSecret`."""
    if not (url := secret_setting(environment, DATABASE_URL)):
        raise UnusableSecret(f"{DATABASE_URL} is not set")
    return url


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables but for those that hold a secret, or say where one is."""
    return {
        name: value for name, value in environment.items() if name not in {*FILE_OF, *FILE_OF.values(), BROKER_PASSWORD}
    }


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 600, whole or not at all: readers never see half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def kept_secret(path: Path) -> str:
    """Return the secret in `path`, made of 256 random bits on first use; letters, digits, `-` and `_` only."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text().strip()
