"""The SparkSession of a worker process: one, warm, started before any thread.

`SPARK_REMOTE` (Spark Connect) or `SPARK_MASTER` say where it runs; local by default.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

# More task slots than cores: a task that waits for a slow endpoint uses no core. Four tries: delivery is fenced, so a
# try may be repeated.
LOCAL_MASTER = "local[12,4]"
# Taking files in keeps a core busy: two tasks a core cover the waits for the database, and each holds some 70 MB.
LOCAL_BATCH_MASTER = f"local[{2 * (os.cpu_count() or 1)},4]"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "workers.spark.daemon",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


# Whoever is on this machine, a handler of another user among them, reaches the ports of the driver. Spark makes the
# secret itself, where it runs in one process; a cluster is given one of its own.
_AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}

# Java that only starts short jobs, whose work is done in Python: little is compiled well enough to be worth it.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class UnsafeSparkSettings(RuntimeError):
    """Raised at start when Spark would run a task twice at once, or not again after its executor died."""


def start_session(
    app_name: str, *, master: str | None = None, local: str = LOCAL_MASTER, java_options: str = ""
) -> SparkSession:
    """Start Spark and return its session: on `master`, else where the environment says, else locally as `local` says.

    `java_options`: of the driver's JVM, where it is ours. Errors: `UnsafeSparkSettings`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    project = str(Path(__file__).resolve().parent.parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if project not in paths:  # the Python workers import this package
        os.environ["PYTHONPATH"] = os.pathsep.join([project, *filter(None, paths)])
    builder = SparkSession.builder.appName(f"poisonadmin {app_name}")
    if remote := os.environ.get("SPARK_REMOTE"):
        builder = builder.remote(remote)
    else:
        where = master or os.environ.get("SPARK_MASTER") or local
        builder = builder.master(where)
        settings = _SETTINGS | {"spark.driver.extraJavaOptions": java_options}
        if where.startswith("local") and not where.startswith("local-cluster"):
            settings |= _AUTHENTICATED
        for name, value in settings.items():
            builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    _check(session)
    return session


def _check(session: SparkSession) -> None:
    if session.conf.get("spark.speculation", "false") != "false":
        raise UnsafeSparkSettings("spark.speculation must be false: a second copy of a task delivers nothing")
    master = session.conf.get("spark.master") or ""
    if master.startswith("local") and not master.startswith("local-cluster") and "," not in master:
        raise UnsafeSparkSettings(f"SPARK_MASTER={master} tries a task once; write local[N,4]")
