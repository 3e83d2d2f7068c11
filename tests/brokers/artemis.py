"""A real ActiveMQ Artemis for tests: on a free port of the loopback interface, with its files in one directory.

One acceptor speaks AMQP, STOMP and CORE. There is no web console: `Management` asks the broker over AMQP.
"""

import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from poisonadmin.embedded.ports import free_port
from tests.brokers.ensure_artemis import ensure_artemis
from tests.brokers.server import Server, answers, running

USER = "admin"
PASSWORD = "admin"
# As in the instance's own profile, with a small heap, and without what takes long to start.
_JAVA = "-Xms64m -Xmx384m -XX:+UseSerialGC -Dlog4j2.disableJmx=true --add-opens java.base/jdk.internal.misc=ALL-UNNAMED"
_CREATE = (
    *("--silent", "--require-login", "--no-web", "--nio", "--no-autotune", "--no-amqp-acceptor", "--no-stomp-acceptor"),
    *("--no-hornetq-acceptor", "--no-mqtt-acceptor", "--user", USER, "--password", PASSWORD, "--host", "127.0.0.1"),
)


class Artemis(Server):
    """A broker in a process group of its own, with addresses and queues made as they are used."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"amqp://127.0.0.1:{self.port}"
        instance = home / "instance"
        java = {"JAVA_ARGS": _JAVA, "JAVA_ARGS_APPEND": ""}
        subprocess.run(
            [ensure_artemis() / "bin" / "artemis", "create", *_CREATE, "--default-port", str(self.port), instance],
            env=os.environ | java,
            check=True,
            capture_output=True,
        )
        _lift_limits(instance / "etc" / "broker.xml")
        command = [instance / "bin" / "artemis", "run"]
        super().__init__(command, environment=java, log=home / "output.log")

    def _answers(self) -> bool:
        return answers(self.port, b"AMQP\x03\x01\x00\x00")


def _lift_limits(configuration: Path) -> None:
    # A full disk of the machine, and a machine that is busy, are not what is tested.
    text = configuration.read_text()
    for was, now in (
        ("<max-disk-usage>90<", "<max-disk-usage>-1<"),
        ("<critical-analyzer>true<", "<critical-analyzer>false<"),
    ):
        assert was in text
        text = text.replace(was, now)
    configuration.write_text(text)


def running_artemis(home: Path) -> AbstractContextManager[Artemis]:
    """Return the context of an Artemis that answers; its files are in `home`."""
    return running(Artemis(home))
