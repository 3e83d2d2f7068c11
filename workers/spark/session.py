"""The SparkSession of a worker process: one, warm, started before any thread.

`SPARK_REMOTE` (Spark Connect) or `SPARK_MASTER` say where it runs; local by default. Run as a module it is a session
and a task, as each start of a Spark worker has them.
"""

import atexit
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import SPARK_REMOTE, secret_setting
from poisonadmin.core.domain.spark_settings import (
    AUTHENTICATED,
    LOCAL_MASTER,
    ON_THIS_MACHINE,
    SETTINGS,
    sockets_in,
    temporary_directory,
)

# An embedded server starts beside its workers.
_SERVER_SECONDS = 60.0
_PROBE_SECONDS = 0.05


class UnsafeSparkSettings(RuntimeError):
    """Raised at start when Spark would run a task twice at once, or not again after its executor died."""


class NoServer(RuntimeError):
    """Raised when no Connect server listens where there should be one on this machine."""


def remote_url() -> str:
    """Return where the Connect server is now; empty where there is none. Errors: `UnusableSecret`."""
    return secret_setting(os.environ, SPARK_REMOTE)


def start_session(
    app_name: str, *, master: str | None = None, local: str = LOCAL_MASTER, java_options: Sequence[str] = ()
) -> SparkSession:
    """Start Spark and return its session: on `master`, else where the environment says, else locally as `local` says.

    `java_options`: of the driver's JVM, where it is ours. Errors: `UnsafeSparkSettings`, `NoServer`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    project = str(Path(__file__).resolve().parent.parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if project not in paths:  # the Python workers import this package
        os.environ["PYTHONPATH"] = os.pathsep.join([project, *filter(None, paths)])
    if remote_url():
        session = _connected(app_name)
    else:
        where = master or os.environ.get("SPARK_MASTER") or local
        builder = SparkSession.builder.appName(f"poisonadmin {app_name}").master(where)
        settings = SETTINGS | {"spark.driver.extraJavaOptions": " ".join(java_options)}
        if where.startswith("local"):
            settings |= ON_THIS_MACHINE
        if where.startswith("local") and not where.startswith("local-cluster"):
            directory = temporary_directory()
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            settings |= AUTHENTICATED | sockets_in(directory)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    _check(session)
    return session


def warm_up(session: SparkSession) -> None:
    """Run a task: the first Python task starts much. Only one, as a task slot would hold 50 MB each."""
    session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()


def _connected(app_name: str) -> SparkSession:
    # gRPC would take care of forks, and say at each that it cannot; no process that is forked here uses it.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as Connected

    class Channel(DefaultChannelBuilder):
        """`localhost` is 127.0.0.1, where the embedded server is: anybody may listen on the same port of ::1."""

        @property
        def endpoint(self) -> str:
            return super().endpoint.replace("localhost:", "127.0.0.1:")

    url = awaited_url()
    direct = [("grpc.enable_http_proxy", 0)] if is_here(url) else None
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    builder = Connected.builder.appName(f"poisonadmin {app_name}").channelBuilder(Channel(url, direct))
    return cast("SparkSession", builder.getOrCreate())


def is_here(url: str) -> bool:
    """Return whether the URL is that of an embedded server."""
    return urlsplit(url).hostname == "localhost"


def awaited_url() -> str:
    """Return the server's URL as soon as one listens there; the client itself would ask again ever more seldom.

    Errors: `NoServer`.
    """
    until = time.monotonic() + _SERVER_SECONDS
    while is_here(url := remote_url()):
        try:
            socket.create_connection(("127.0.0.1", urlsplit(url).port or 15002), timeout=1).close()
            break
        except OSError as error:
            if time.monotonic() > until:
                raise NoServer(f"Spark Connect does not listen: {error}") from None
            time.sleep(_PROBE_SECONDS)
    return url


def _check(session: SparkSession) -> None:
    if session.conf.get("spark.speculation", "false") != "false":
        raise UnsafeSparkSettings("spark.speculation must be false: a second copy of a task delivers nothing")
    master = session.conf.get("spark.master") or ""
    if master.startswith("local") and not master.startswith("local-cluster") and "," not in master:
        raise UnsafeSparkSettings(f"SPARK_MASTER={master} tries a task once; write local[N,4]")


if __name__ == "__main__":
    warm_up(start_session("warm-up"))
