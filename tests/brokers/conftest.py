"""Real brokers, one of each kind a run; started when a test first asks for it.

A file named after a broker is collected only when that broker is chosen; a test that takes `broker` runs with each one
that is.
"""

from collections.abc import Iterator

import pytest

from tests.brokers.artemis import Artemis, running_artemis
from tests.brokers.chosen import KINDS, chosen_brokers
from tests.brokers.kafka import Kafka, running_kafka
from tests.brokers.rabbitmq import RabbitMq, running_rabbitmq
from tests.brokers.server import Server
from tests.brokers.shop import mortal_installation
from tests.whole_system.installation import Installation

collect_ignore_glob = [f"test_{kind}*.py" for kind in KINDS if kind not in chosen_brokers()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `broker` once with each chosen kind."""
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", chosen_brokers(), indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Server:
    """Return the running broker of the kind that the test runs with."""
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Yield a running RabbitMQ."""
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    """Yield a running ActiveMQ Artemis."""
    with running_artemis(tmp_path_factory.mktemp("artemis")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Yield a running Kafka."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield a running PoisonAdmin whose workers may be killed."""
    with mortal_installation(tmp_path_factory.mktemp("installation")) as running:
        yield running
