"""A few vectors of the conformance suite through the whole system, over real time."""

from collections.abc import Iterator

import psutil
import pytest

from tests.conformance.clean_stop import check_clean_stop
from tests.conformance.courses import Went, run_vectors
from tests.conformance.vectors import WHOLE_SYSTEM_VECTORS, Vector
from tests.whole_system.installation import Installation, until

SPARK_JOB = ("redeliver", "spark-redelivery", "succeeded")


@pytest.fixture(scope="module")
def courses(installation: Installation) -> Iterator[dict[str, Went]]:
    """Yield how each vector's message went, by its address; every wait is waited out."""
    with run_vectors(installation, WHOLE_SYSTEM_VECTORS, waits_out=True) as went:
        yield went


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(vector, id=f"{vector.id} {vector.address}", marks=pytest.mark.conformance(*vector.ids))
        for vector in WHOLE_SYSTEM_VECTORS
    ],
)
def test_the_whole_system_takes_the_vectors_course(vector: Vector, courses: dict[str, Went]) -> None:
    went = courses[vector.address]
    assert went.course == vector.course
    assert went.failures == vector.failures
    assert went.jobs == (SPARK_JOB,) * (vector.failures + went.accepted)


@pytest.mark.conformance("SAP-m", "R2", by="clean stop")
@pytest.mark.long
def test_sap_m_a_worker_that_is_stopped_cleanly_accuses_nobody_under_either_rule(installation: Installation) -> None:
    def restart() -> None:
        former = installation.pid_of("spark-redelivery")
        psutil.Process(former).terminate()
        until(lambda: installation.pid_of("spark-redelivery") != former, 90)
        installation.until_ready()

    check_clean_stop(installation, restart)
