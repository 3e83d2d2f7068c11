"""One run of all vectors through the whole system, and shops and gates beside it."""

from collections.abc import Iterator

import pytest

from tests.conformance.courses import Went, run_vectors
from tests.conformance.vectors import VECTORS
from tests.whole_system.conftest import open_shop  # noqa: F401  (a fixture of both folders)
from tests.whole_system.installation import Installation


@pytest.fixture(scope="session")
def courses(installation: Installation) -> Iterator[dict[str, Went]]:
    """Yield how each vector's message went, by its address; the consumer goes on and takes what comes later."""
    with run_vectors(installation, VECTORS) as went:
        yield went
