"""A real RabbitMQ for tests: on free ports of the loopback interface, with everything it writes in one directory."""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path

from poisonadmin.embedded.ports import free_port
from tests.brokers.ensure_rabbitmq import rabbitmq_script
from tests.brokers.server import Server, answers, running

_CONTROL = (Path("/usr/lib/rabbitmq/bin/rabbitmqctl"), Path("/usr/local/lib/rabbitmq/sbin/rabbitmqctl"))


class RabbitMq(Server):
    """A broker in a process group of its own."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.node = f"test-{os.getpid()}-{self.port}@localhost"
        self._epmd_port = free_port()
        configuration = home / "rabbitmq.conf"
        configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        environment = {
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
        super().__init__([rabbitmq_script()], environment=environment, log=home / "output.log")

    def control(self, *arguments: str) -> None:
        """Run rabbitmqctl."""
        command = next(path for path in _CONTROL if path.exists())
        own = os.environ | self._environment
        done = subprocess.run([command, "-q", *arguments], env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def stop(self) -> None:
        """End it, and the name server that Erlang started for it."""
        super().stop()
        if epmd := shutil.which("epmd"):
            own = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port)}
            # It forgets the node a moment after its end, and refuses to go before.
            for _ in range(50):
                answer = subprocess.run([epmd, "-kill"], env=own, capture_output=True, text=True).stdout
                if "Killed" in answer or "Cannot connect" in answer:
                    return
                time.sleep(0.1)

    def _answers(self) -> bool:
        return answers(self.port, b"AMQP\x00\x00\x09\x01")


class ManagedRabbitMq(RabbitMq):
    """A RabbitMQ that answers questions over HTTP too."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.management = f"http://127.0.0.1:{(port := free_port())}"
        (home / "plugins").write_text("[rabbitmq_management].\n")
        with (home / "rabbitmq.conf").open("a") as configuration:
            configuration.write(f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n")

    def put(self, path: str, body: dict[str, object]) -> None:
        """Set something through the management's API."""
        request = urllib.request.Request(f"{self.management}/api{path}", json.dumps(body).encode(), method="PUT")
        request.add_header("Authorization", f"Basic {base64.b64encode(b'guest:guest').decode()}")
        request.add_header("Content-Type", "application/json")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()


def running_rabbitmq(home: Path) -> AbstractContextManager[RabbitMq]:
    """Return the context of a RabbitMQ that answers; its files are in `home`."""
    return running(RabbitMq(home))
