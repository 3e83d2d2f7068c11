"""A real RabbitMQ for tests: on free ports of the loopback interface, with everything it writes in one directory."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from poisonadmin.embedded.ports import free_port
from tests.brokers.ensure_rabbitmq import rabbitmq_script

START_SECONDS = 90


class RabbitMq:
    """A broker in a process group of its own."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self._log = home / "output.log"
        self._epmd_port = free_port()
        configuration = home / "rabbitmq.conf"
        configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        own = {
            "HOME": str(home),  # where Erlang keeps its cookie
            "RABBITMQ_NODENAME": f"test-{os.getpid()}-{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [rabbitmq_script()], env=os.environ | own, stdout=log, stderr=log, start_new_session=True
            )

    def until_it_answers(self) -> None:
        """Return when it takes connections; fail with what it has printed."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                probe.settimeout(1)
                if probe.recv(1):
                    return
            time.sleep(0.1)
        raise AssertionError(f"RabbitMQ does not answer:\n{self._log.read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        """End it, and the name server that Erlang started for it."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if epmd := shutil.which("epmd"):
            own = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port)}
            # It forgets the node a moment after its end, and refuses to go before.
            for _ in range(50):
                said = subprocess.run([epmd, "-kill"], env=own, capture_output=True, text=True).stdout
                if "Killed" in said or "Cannot connect" in said:
                    return
                time.sleep(0.1)


@contextlib.contextmanager
def running_rabbitmq(home: Path) -> Iterator[RabbitMq]:
    """Yield a RabbitMQ that answers; its files are in `home`."""
    broker = RabbitMq(home)
    try:
        broker.until_it_answers()
        yield broker
    finally:
        broker.stop()
