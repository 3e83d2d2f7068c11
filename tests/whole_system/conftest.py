"""An installation for all tests of this folder, and HTTP destinations on it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from poisonadmin.embedded.spark import ConnectServer
from tests.fixtures.class_archive import give_archive
from tests.whole_system.consumer import Behaviour, consuming, takes
from tests.whole_system.handler_destination import HANDLERS
from tests.whole_system.http_destination import CreateHttpDestination, HttpDestination
from tests.whole_system.installation import Installation


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory, trained_server: ConnectServer) -> Iterator[Installation]:
    """Everything that `make up` starts, running, and ready to take in and to deliver."""
    home = tmp_path_factory.mktemp("installation")
    give_archive(trained_server, home)
    running = Installation(home, POISONADMIN_HANDLER_PATH=str(HANDLERS))
    try:
        running.until_ready({"spark-redelivery"})
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def batch_worker(installation: Installation) -> None:
    """Return when the second Spark worker is ready too, which starts a while after the first."""
    installation.until_ready()


@pytest.fixture
def create_http_destination(installation: Installation) -> Iterator[CreateHttpDestination]:
    """Create destinations of the installation, each with a consumer of its own."""
    with contextlib.ExitStack() as until_the_end:

        def create(name: str, behaviour: Behaviour = takes, **settings: object) -> HttpDestination:
            consumer = until_the_end.enter_context(consuming(behaviour))
            return HttpDestination.create(installation, name, consumer, **settings)

        yield create


@pytest.fixture
def inbox(installation: Installation, tmp_path: Path) -> Path:
    """Return a directory to drop files into."""
    directory = installation.home / "inbox" / tmp_path.name
    directory.mkdir(parents=True)
    return directory
