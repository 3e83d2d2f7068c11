"""A real RabbitMQ for tests: on free ports of the loopback interface, with everything it writes in one directory."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from poisonadmin.embedded.ports import free_port
from tests.brokers.ensure_rabbitmq import rabbitmq_script
from tests.brokers.server import Processes


class RabbitMq:
    """A broker in a process group of its own."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.node = f"test-{os.getpid()}-{self.port}@localhost"
        self._epmd_port = free_port()
        configuration = home / "rabbitmq.conf"
        configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        self.environment = {  # rabbitmqctl needs the same
            "HOME": str(home),  # where Erlang keeps its cookie
            "RABBITMQ_NODENAME": self.node,
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
        self._processes = Processes([rabbitmq_script()], environment=self.environment, log=home / "output.log")

    def start(self) -> None:
        """Start it, on what it has stored; returns when it takes connections."""
        self._processes.start()
        self._processes.until(self._answers)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._processes.kill()

    def stop(self) -> None:
        """End it, and the name server that Erlang started for it."""
        self._processes.stop()
        if epmd := shutil.which("epmd"):
            own = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port)}
            # It forgets the node a moment after its end, and refuses to go before.
            for _ in range(50):
                said = subprocess.run([epmd, "-kill"], env=own, capture_output=True, text=True).stdout
                if "Killed" in said or "Cannot connect" in said:
                    return
                time.sleep(0.1)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            probe.settimeout(1)
            return bool(probe.recv(1))
        return False


@contextlib.contextmanager
def running_rabbitmq(home: Path) -> Iterator[RabbitMq]:
    """Yield a RabbitMQ that answers; its files are in `home`."""
    broker = RabbitMq(home)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
