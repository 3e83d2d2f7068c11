"""A local redelivery for all tests of this folder, one run of all vectors through it, and HTTP destinations on it."""

import contextlib
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.courses import Went, run_vectors
from tests.conformance.local_redelivery import LocalRedelivery
from tests.conformance.vectors import VECTORS
from tests.fixtures.api import caller_of
from tests.fixtures.database import empty_database
from tests.whole_system.consumer import Behaviour, consuming, takes
from tests.whole_system.handler_destination import HANDLERS
from tests.whole_system.http_destination import CreateHttpDestination, HttpDestination


@pytest.fixture(scope="package")
def redelivery(
    test_database_url: str, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalRedelivery]:
    """Yield a running redelivery; what a test leaves behind, the others find, as in a system that goes on."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("POISONADMIN_HANDLER_PATH", str(HANDLERS))
        token = caller_of("admin").token
        assert token is not None
        running = LocalRedelivery(tmp_path_factory.mktemp("redelivery"), test_database_url, token)
        try:
            yield running
        finally:
            running.close()
            empty_database()


@pytest.fixture(scope="package")
def courses(redelivery: LocalRedelivery) -> Iterator[dict[str, Went]]:
    """Yield how each vector's message went, by its address; the consumer goes on and takes what comes later."""
    with run_vectors(redelivery, VECTORS) as went:
        yield went


@pytest.fixture
def create_http_destination(redelivery: LocalRedelivery) -> Iterator[CreateHttpDestination]:
    """Create destinations of the redelivery, each with a consumer of its own."""
    with contextlib.ExitStack() as until_the_end:

        def create(name: str, behaviour: Behaviour = takes, **settings: object) -> HttpDestination:
            consumer = until_the_end.enter_context(consuming(behaviour))
            return HttpDestination.create(redelivery, name, consumer, **settings)

        yield create
