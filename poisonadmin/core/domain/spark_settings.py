"""Spark's settings where it is ours: for the embedded Connect server, and for a worker that starts Spark itself."""

import os
import shutil
import tempfile
from pathlib import Path

# Taking files in keeps a core busy: two tasks a core cover the waits for the database, and each holds some 70 MB.
BATCH_TASKS = 2 * (os.cpu_count() or 1)
# More task slots than cores: a task that waits for a slow endpoint uses no core.
DELIVERY_TASKS = 12
# As many as the dispatcher may ask for: a delivery task that waited for a slot would take one of the batch work's.
MOST_DELIVERY_TASKS = 8 * max(1, min(os.cpu_count() or 1, 8))
_TRIES = 4  # delivery is fenced, so a try may be repeated
LOCAL_MASTER = f"local[{DELIVERY_TASKS},{_TRIES}]"
LOCAL_BATCH_MASTER = f"local[{BATCH_TASKS},{_TRIES}]"
# No batch job has more than `BATCH_TASKS` tasks here, so they leave deliveries all of their slots.
SHARED_MASTER = f"local[{MOST_DELIVERY_TASKS + BATCH_TASKS},{_TRIES}]"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "workers.spark.daemon",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}
# Where the executors are on this machine; those of a cluster reach the driver by its machine's name.
ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# Whoever is on this machine, a handler of another user among them, reaches the ports of the driver. Spark makes the
# secret itself, where it runs in one process; a cluster is given one of its own.
AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def sockets_in(directory: Path) -> dict[str, str]:
    """Let the Python processes listen on sockets in `directory`, which is for this user alone.

    To a TCP port anybody on this machine may connect, and Spark's Python forks before it asks for the secret.
    """
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(directory),
    }


# Java that only starts short jobs, whose work is done in Python: little is compiled well enough to be worth it.
SHORT_JOBS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


# Spark refuses longer directories, since a socket's path has at most 107 bytes and its own names are long.
_MOST_BYTES = 60


def fresh_directory(wished: Path) -> Path:
    """Return an empty directory for this user alone: `wished`, or what it links to where its path would be too long.

    What the last start left there is removed.
    """
    if wished.is_symlink():
        shutil.rmtree(wished.readlink(), ignore_errors=True)
        wished.unlink()
    else:
        shutil.rmtree(wished, ignore_errors=True)
    if _fits(wished):
        wished.mkdir(mode=0o700)
        return wished
    short = temporary_directory()
    wished.symlink_to(short)
    return short


def temporary_directory() -> Path:
    """Return a new directory for this user alone."""
    parent = Path(tempfile.gettempdir())
    return Path(
        tempfile.mkdtemp(prefix="poisonadmin-", dir=parent if _fits(parent / "poisonadmin-12345678") else "/tmp")
    )


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory)) <= _MOST_BYTES
