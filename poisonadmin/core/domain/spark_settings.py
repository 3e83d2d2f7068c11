"""Spark's settings where it is ours: for the embedded Connect server, and for a worker that starts Spark itself."""

import os
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
