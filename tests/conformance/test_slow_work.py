"""Conformance R14, R18: slow work while the processes that deliver it are killed; `tests/faults` has it at length."""

import random

import pytest

from tests.conformance.local_redelivery import LocalRedelivery
from tests.faults.f29_slow_work import Work, slow_endpoints, slow_handlers


@pytest.mark.conformance("R14", "R2", by="lost process")
def test_slow_handlers_keep_to_their_concurrency_and_no_innocent_is_accused_when_their_processes_are_lost(
    redelivery: LocalRedelivery,
) -> None:
    work = Work(messages=8, seconds=(1.0, 4.0), concurrency=2, kills=2, pause=(2.0, 4.0))
    assert slow_handlers(redelivery, work, random.Random(1)) == []


@pytest.mark.conformance("R18", by="lost process")
def test_of_thirty_slow_requests_exactly_the_two_that_had_begun_are_lost_with_their_process(
    redelivery: LocalRedelivery,
) -> None:
    work = Work(messages=30, seconds=(1.0, 30.0), concurrency=2, kills=1, pause=(0.2, 0.5))
    assert slow_endpoints(redelivery, work, random.Random(1)) == []
