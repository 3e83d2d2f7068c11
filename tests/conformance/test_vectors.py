"""Each vector of failures in a row by the pure rules, and through the API, the redelivery and an HTTP consumer."""

import pytest

from tests.conformance.by_rules import course_by_rules
from tests.conformance.courses import Went
from tests.conformance.local_redelivery import JOB
from tests.conformance.vectors import VECTORS, Vector

each_vector = pytest.mark.parametrize(
    "vector",
    [
        pytest.param(vector, id=f"{vector.id} {vector.address}", marks=pytest.mark.conformance(*vector.ids))
        for vector in VECTORS
    ],
)


@each_vector
def test_the_pure_rules_give_the_vectors_course(vector: Vector) -> None:
    assert course_by_rules(vector) == vector.course


@each_vector
def test_the_redelivery_takes_the_vectors_course(vector: Vector, courses: dict[str, Went]) -> None:
    went = courses[vector.address]
    assert went.course == vector.course
    assert went.failures == vector.failures
    returns = vector.course.state == "TBDL" and not vector.course.stops
    assert went.accepted == returns, "what went back to its queue is delivered once its consumer is well"
    assert went.jobs == (JOB,) * (vector.failures + returns)
