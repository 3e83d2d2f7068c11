"""A Spark Connect server for an installation under test, from the wheel, started again whenever it has died."""

import os
import subprocess
import threading
from pathlib import Path

import pyspark

from tests.faults.kills import DAEMON
from tests.whole_system.installation import Installation, until

LOOK_SECONDS = 0.5
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    "spark.master": "local[12,4]",
    "spark.ui.enabled": "false",
    "spark.speculation": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.python.daemon.module": DAEMON,
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


class ConnectServer:
    """Its tasks find in their environment what every process of the installation finds there."""

    def __init__(self, installation: Installation, port: int) -> None:
        self._installation = installation
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()
        until(self._can_start, 120, lambda: installation.output[-2000:])
        self._thread = threading.Thread(target=self._keep, name="connect-server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it for good."""
        self._is_over.set()
        self._thread.join()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _keep(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            if (self._process is None or self._process.poll() is not None) and self._can_start():
                self._process = self._started()

    def _can_start(self) -> bool:
        """Return whether there is a process of the installation whose environment can be had."""
        try:
            return "DATABASE_URL_FILE" in self._installation.process_of("web").environ()
        except Exception:  # it has not been started, or was killed just now
            return False

    def _started(self) -> "subprocess.Popen[bytes]":
        settings = _SETTINGS | {"spark.connect.grpc.binding.port": str(self._port)}
        environment = self._installation.process_of("web").environ()
        environment.pop("SPARK_REMOTE", None)
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with (self._installation.home / "connect.log").open("ab") as output:
            return subprocess.Popen(
                [str(submit), "--class", CLASS, "--name", "connect", *options],
                env={**environment, "SPARK_HOME": str(submit.parents[1])},
                cwd=os.sep,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
