"""Real brokers, one of each kind a process; started when a test first asks for it.

A file named after a broker is collected only when that broker is chosen. A test that takes `queues` runs with each type
of queue that the chosen brokers have, or with those of them that its module names in RUNS_WITH.
"""

from collections.abc import Iterator

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.chosen import KINDS, chosen_brokers
from tests.brokers.kafka import Kafka
from tests.brokers.queues import QUEUE_TYPES, Queues
from tests.brokers.rabbitmq import RabbitMq
from tests.brokers.server import Server, running
from tests.whole_system.installation import Installation

collect_ignore_glob = [f"test_{kind}*.py" for kind in KINDS if kind not in chosen_brokers()]
if chosen_brokers() == ("rabbitmq",):
    collect_ignore_glob.append("test_killed.py")  # RabbitMQ is not among its brokers


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `queues` once with each type."""
    if "queues" in metafunc.fixturenames:
        wanted = getattr(metafunc.module, "RUNS_WITH", tuple(QUEUE_TYPES))
        types = [name for name in wanted if QUEUE_TYPES[name].kind in chosen_brokers()]
        metafunc.parametrize("queues", types, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that kill their broker behind the others, which then find it as they left it."""
    items.sort(key=lambda item: "broker_to_kill" in getattr(item, "fixturenames", ()))


@pytest.fixture
def queues(request: pytest.FixtureRequest) -> Queues:
    """Return queues of the type that the test runs with, in a running broker."""
    kind, queues_of = QUEUE_TYPES[request.param]
    server: Server = request.getfixturevalue(kind)
    server.start()  # a test that failed may have left it killed
    return queues_of(server)


@pytest.fixture
def broker_to_kill(queues: Queues) -> Server:
    """Return the broker with the queues; the test may kill it, and starts it again."""
    return queues.server


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Yield a running RabbitMQ."""
    with running(RabbitMq(tmp_path_factory.mktemp("rabbitmq"))) as server:
        yield server


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    """Yield a running ActiveMQ Artemis."""
    with running(Artemis(tmp_path_factory.mktemp("artemis"))) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Yield a running Kafka."""
    with running(Kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield everything that `make up` starts, running; its workers may be killed."""
    made = Installation(tmp_path_factory.mktemp("installation"))
    try:
        made.until_ready()
        yield made
    finally:
        made.stop()
