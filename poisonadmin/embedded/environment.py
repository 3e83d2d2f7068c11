"""The environment that the supervisor reads, and the one that it exports to its children."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.core.domain.secret_settings import (
    DATABASE_URL,
    ENCRYPTION_KEYS,
    FILE_OF,
    MAIL_URL,
    MIGRATION_DATABASE_URL,
    REDIS_URL,
    SECRET_KEY,
    SPARK_REMOTE,
    UnusableSecret,
    kept_secret,
    secret_setting,
    without_secrets,
    write_private,
)
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import MARK, EmbeddedError

DEFAULT_PORT = 8000


@dataclass(frozen=True)
class Wishes:
    """The user's choices for a start of PoisonAdmin."""

    home: Path
    port: int
    database_url: str | None
    migration_database_url: str | None
    redis_url: str | None
    secret_key: str | None = None
    spark_remote: str | None = None
    spark_master: str | None = None
    mail_url: str | None = None
    encryption_keys: str | None = None

    @property
    def embeds_spark(self) -> bool:
        """True when the supervisor runs Spark."""
        return not (self.spark_remote or self.spark_master)


def read_wishes(environment: Mapping[str, str], home: Path | None = None) -> Wishes:
    """Return the wishes in `environment`, `home` going before POISONADMIN_HOME; raise `EmbeddedError` for a bad one."""
    chosen = home or Path(environment.get("POISONADMIN_HOME") or PROJECT / ".poisonadmin")
    return Wishes(
        home=chosen.expanduser().resolve(),
        port=_port(environment.get("POISONADMIN_PORT") or str(DEFAULT_PORT)),
        database_url=_secret(environment, DATABASE_URL),
        migration_database_url=_secret(environment, MIGRATION_DATABASE_URL),
        redis_url=_secret(environment, REDIS_URL),
        secret_key=_secret(environment, SECRET_KEY),
        spark_remote=_secret(environment, SPARK_REMOTE),
        spark_master=environment.get("SPARK_MASTER") or None,
        mail_url=_secret(environment, MAIL_URL),
        encryption_keys=_secret(environment, ENCRYPTION_KEYS),
    )


def exported(
    environment: Mapping[str, str], wishes: Wishes, *, database_url: str, redis_url: str, java_home: Path
) -> dict[str, str]:
    """Return the environment of every process of PoisonAdmin. The secrets are in files of the home, which it names:
    an environment is for everybody to read who runs as the same user, and children inherit it."""
    secrets = {
        DATABASE_URL: database_url,
        REDIS_URL: redis_url,
        SECRET_KEY: wishes.secret_key,
        SPARK_REMOTE: wishes.spark_remote,
        MAIL_URL: wishes.mail_url,
        ENCRYPTION_KEYS: _encryption_keys(wishes),
    }
    path = [str(PROJECT), *filter(None, [environment.get("PYTHONPATH")])]
    return without_secrets(environment) | {
        **in_files(wishes.home, {name: value for name, value in secrets.items() if value}),
        "POISONADMIN_HOME": str(wishes.home),
        "POISONADMIN_PORT": str(wishes.port),
        "JAVA_HOME": str(java_home),
        # Spark starts its own Python processes, which import our packages too.
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": environment.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_LOCAL_DIRS": environment.get("SPARK_LOCAL_DIRS") or str(_spark_directory(wishes.home)),
        # Everything here runs on the loopback interface, so destinations may stand there too.
        "POISONADMIN_ALLOW_LOOPBACK": environment.get("POISONADMIN_ALLOW_LOOPBACK", "1"),
        "PYTHONUNBUFFERED": "1",
        # Celery's alarm at being started as root is about pickle, which our workers do not take.
        "PYTHONWARNINGS": environment.get("PYTHONWARNINGS", "ignore:You're running the worker with superuser"),
        MARK: str(wishes.home),
    }


def _spark_directory(home: Path) -> Path:
    directory = home / "spark"
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o700)
    return directory


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    try:
        return secret_setting(environment, name) or None
    except UnusableSecret as error:
        raise EmbeddedError(f"{error}.") from None


def in_files(home: Path, secrets: Mapping[str, str]) -> dict[str, str]:
    """Write secrets, by the names of their settings, where only we can read them; return the variables that say so."""
    paths = {name: _secrets(home) / _file(name) for name in secrets}
    for name, path in paths.items():
        write_private(path, secrets[name])
    return {FILE_OF[name]: str(path) for name, path in paths.items()}


def _secrets(home: Path) -> Path:
    directory = home / "secrets"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _encryption_keys(wishes: Wishes) -> str:
    """Return the keys that are wished, and behind them those that have encrypted something here; made on first use."""
    kept = _secrets(wishes.home) / _file(ENCRYPTION_KEYS)
    if wishes.encryption_keys is None:
        return kept_secret(kept)
    former = kept.read_text().split() if kept.exists() else []
    return "\n".join(dict.fromkeys([*wishes.encryption_keys.split(), *former]))


def _file(name: str) -> str:
    return name.lower().replace("_", "-")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise EmbeddedError(f"POISONADMIN_PORT={text} is not a port: choose a number from 1 to 65535.")
    return int(text)
