"""The embedded Spark: one Connect server in which the jobs of both Spark workers run, for this user alone.

`python -m poisonadmin.embedded.spark HOME JAVA_HOME` makes the archive of classes with which it starts sooner.
"""

import contextlib
import hashlib
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE, write_private
from poisonadmin.core.domain.spark_settings import (
    AUTHENTICATED,
    ON_THIS_MACHINE,
    SETTINGS,
    SHARED_MASTER,
    SHORT_JOBS,
    fresh_directory,
    sockets_in,
)
from poisonadmin.embedded.environment import in_files
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import ChildSpec, EmbeddedError, RestartRule, processes_where, spawn

NAME = "spark"
_TRAINING_SECONDS = 60.0
_BLOCK_BYTES = 1024 * 1024
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
# What Spark's own launcher, a Java program of its own, would add.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_JAVA_OPTIONS = (
    *SHORT_JOBS,
    *("-Xms32m", f"-Xmx{SETTINGS['spark.driver.memory']}"),
    # What a long job took is given back.
    *("-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30"),
    *("-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"),
)
_CONNECT = {
    "spark.app.name": "poisonadmin",
    "spark.master": SHARED_MASTER,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # Encrypted, the answer that a class is not there can be lost, and a task then waits for two minutes (Spark 4.3).
    # It would not leave this machine; who may ask is still checked.
    "spark.network.crypto.enabled": "false",
    # All work is done in Python: compiled Java would take longer to make than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # What a worker that was killed has left running ends so soon.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    "spark.connect.execute.manager.maintenanceInterval": "10s",
}
_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True)
class ConnectServer:
    """The server of a data directory; each start has a port and a token of its own, in the file for `SPARK_REMOTE`."""

    home: Path
    java_home: Path
    more_options: Sequence[str] = ()

    def spec(self, environment: Mapping[str, str]) -> ChildSpec:
        """The process of the server; its tasks find `environment`, and the command line shows no token."""
        return ChildSpec(
            name=NAME,
            command=[self.java_home / "bin" / "java", f"@{self._arguments}", _SERVER],
            environment=environment,
            working_directory=self.directory,
            unsaid=["Using incubator modules"],
            clear_the_way=self.choose_address,
        )

    @property
    def address_file(self) -> Path:
        """The file with the server's address and token."""
        return self.home / "secrets" / "spark-remote"

    @property
    def directory(self) -> Path:
        """The server's own directory, with its arguments and its archive of classes."""
        return self.home / "connect"

    @property
    def sockets(self) -> Path:
        """The directory in which its Python processes listen, or a link to it."""
        return self.directory / "sockets"

    @property
    def archive_kind(self) -> str:
        """A short name for what the archive of classes, with which Spark starts in half the time, depends on."""
        release = self.java_home / "release"
        java = self.java_home / "bin" / "java"
        facts = [
            release.read_text() if release.exists() else java.read_text(errors="replace"),
            str(self.java_home.resolve()),
            *(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(_jars().iterdir())),
            *_JAVA_OPTIONS,
        ]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]

    def find_archive(self) -> Path | None:
        """Return the archive of classes, None where there is none; remove one that is damaged."""
        for path in self.directory.glob(f"classes-{self.archive_kind}-*.jsa"):
            with contextlib.suppress(OSError):
                if path == self._named(path):
                    return path
                path.unlink()
        return None

    def keep_archive(self, draft: Path) -> None:
        """Put a finished archive of classes in the place of all others. Errors: `OSError`."""
        kept = self._named(draft)
        for other in self.directory.glob("classes-*"):
            other.unlink()
        draft.rename(kept)

    def _named(self, archive: Path) -> Path:
        """Return the path of an archive, which says what it depends on, and its checksum.

        Java notices a stale archive by itself, but believes a damaged one.
        """
        checksum = 0
        with archive.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                checksum = zlib.crc32(block, checksum)
        return self.directory / f"classes-{self.archive_kind}-{checksum:08x}.jsa"

    @property
    def has_archive(self) -> bool:
        """True when the last start found a class archive."""
        return "-XX:SharedArchiveFile=" in self._arguments.read_text()

    def training(self, environment: Mapping[str, str]) -> ChildSpec:
        """The process that makes the class archive, once everything has been started."""
        return ChildSpec(
            name="spark-classes",
            command=[sys.executable, "-m", "poisonadmin.embedded.spark", self.home, self.java_home],
            environment=environment,
            working_directory=PROJECT,
            restart=RestartRule.NEVER,
            start_after_seconds=_TRAINING_SECONDS,
        )

    @property
    def _arguments(self) -> Path:
        return self.directory / "arguments"

    def choose_address(self) -> None:
        """Write down another port and token for the next start, where only this user can read them.

        While no server runs, anybody may listen on the port of the last one, and a worker would send him the token.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        remove_leftovers(self.home / "spark")
        port, token = free_port(), secrets.token_urlsafe(32)
        logging = self._arguments.with_name("log4j2.properties")
        write_private(logging, _LOGGING)
        settings = SETTINGS | ON_THIS_MACHINE | AUTHENTICATED | _CONNECT | sockets_in(fresh_directory(self.sockets))
        settings |= {"spark.connect.grpc.binding.port": str(port), "spark.connect.authenticate.token": token}
        archive = self.find_archive()
        arguments = [
            *_JAVA_OPTIONS,
            *self.more_options,
            # Where Java cannot use it after all, it goes on without, and need not say so.
            *([f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive else []),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            f"-Dlog4j2.configurationFile={logging}",
            *(f"-D{name}={value}" for name, value in settings.items()),
            *("-cp", f"{_jars()}/*"),
        ]
        write_private(self._arguments, "".join(f"{_quoted(argument)}\n" for argument in arguments))
        in_files(self.home, {SPARK_REMOTE: f"sc://localhost:{port}/;token={token}"})


def remove_leftovers(directory: Path) -> None:
    """Remove what Spark's killed drivers left in `directory`, unless another one uses it: the names do not say whose.

    One of another user could not: the directory is ours alone.
    """
    if processes_where(
        lambda process: (
            process.name() == "java" and str(directory) in process.environ().get("SPARK_LOCAL_DIRS", "").split(",")
        )
    ):
        return
    for pattern in ("blockmgr-*", "spark-*"):
        for left in directory.glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def _quoted(argument: str) -> str:
    r"""Return the argument as Java reads it in a file of arguments.

    >>> print(_quoted('-Da=b "c" \\'))
    "-Da=b \"c\" \\"
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise EmbeddedError("pyspark is not installed: run `make install`.")
    return Path(found.origin).parent / "jars"


_LOWEST_PRIORITY = 19
_PATIENCE_SECONDS = 300


def make_archive(home: Path, java_home: Path) -> bool:
    """Run a server and one task, keep the classes that they loaded, and return whether that was possible.

    It runs once, in the background, with the lowest priority. What it cannot make is made by a later start, or never:
    nothing needs it.
    """
    connect = ConnectServer(home, java_home)
    training = connect.directory / "training"
    shutil.rmtree(training, ignore_errors=True)
    training.mkdir(mode=0o700, parents=True)
    try:
        draft = training / "classes.jsa"
        trained = ConnectServer(training, java_home, [f"-XX:ArchiveClassesAtExit={draft}"])
        _train(trained)
        if draft.exists():
            connect.keep_archive(draft)
            return True
        return False
    finally:
        shutil.rmtree(training, ignore_errors=True)


def _train(server: ConnectServer) -> None:
    server.choose_address()
    client = ChildSpec(
        name="warm-up",
        command=[sys.executable, "-m", "workers.spark.session"],
        environment=dict(os.environ) | {FILE_OF[SPARK_REMOTE]: str(server.address_file)},
        working_directory=PROJECT,
    )
    running = [spawn(spec, subprocess.DEVNULL) for spec in (server.spec(os.environ), client)]
    try:
        if running[1].wait(_PATIENCE_SECONDS) == 0:
            running[0].terminate()  # it writes the archive now
            running[0].wait(_PATIENCE_SECONDS)
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(server.sockets.resolve(), ignore_errors=True)  # it may stand elsewhere


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    try:
        is_made = make_archive(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no class archive was made, so Spark starts slowly: {error}")
    sys.stdout.write("the next start of Spark is faster\n" if is_made else "this Java makes no class archives\n")
