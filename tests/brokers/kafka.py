"""A real Apache Kafka for tests: one node, broker and controller, on free ports of the loopback interface."""

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from poisonadmin.embedded.ports import free_port
from tests.brokers.ensure_kafka import ensure_kafka
from tests.brokers.server import Server

USER = "drain"
PASSWORD = "secret"
_CONFIGURATION = """\
process.roles={roles}
node.id={node}
listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login},PROXIED://127.0.0.1:{behind_proxy},\
ELSEWHERE://127.0.0.1:{elsewhere}{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login},PROXIED://127.0.0.1:{proxy},\
ELSEWHERE://{other_host}:{other_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,PROXIED:PLAINTEXT,ELSEWHERE:PLAINTEXT,\
CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=5000
log.cleaner.dedupe.buffer.size=8388608
"""
_LOG4J = """\
Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "%d %p %m (%c)%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        - ref: STDOUT
"""


class Kafka(Server):
    """A broker in a process group of its own. It makes no topic by itself. `first`: the broker whose cluster it joins.

    `url` asks for a login, `bootstrap` does not. Clients go where a broker says that it is: to those that come by
    `behind_proxy` it says that it is at `proxy_port`, to those that come by `elsewhere` that it is at `other_host`.
    """

    other_host = "127.0.0.2"

    def __init__(self, home: Path, first: Self | None = None) -> None:
        self.cluster = first.cluster if first else base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.controller = first.controller if first else free_port()
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        login_port = free_port()
        self.url = f"kafka://127.0.0.1:{login_port}"
        self.behind_proxy, self.proxy_port = free_port(), free_port()
        self.elsewhere, self.other_port = free_port(), free_port()
        configuration = home / "server.properties"
        configuration.write_text(
            _CONFIGURATION.format(
                port=self.port,
                login=login_port,
                user=USER,
                password=PASSWORD,
                roles="broker" if first else "broker,controller",
                node=2 if first else 1,
                controller=self.controller,
                control="" if first else f",CONTROLLER://127.0.0.1:{self.controller}",
                behind_proxy=self.behind_proxy,
                proxy=self.proxy_port,
                elsewhere=self.elsewhere,
                other_host=self.other_host,
                other_port=self.other_port,
                logs=home / "data",
            )
        )
        logging = home / "log4j2.yaml"
        logging.write_text(_LOG4J)
        java = [
            *(_java(), "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}"),
            *("-classpath", f"{ensure_kafka()}/*"),
        ]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "--cluster-id", self.cluster, "--config", configuration],
            check=True,
            capture_output=True,
        )
        super().__init__([*java, "kafka.Kafka", configuration], environment={}, log=home / "output.log")

    def _answers(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    assert found, "Kafka needs Java 17 or newer."
    return found
