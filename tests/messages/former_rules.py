"""Failures as a version with other rules has grouped them, and regrouping without a Spark worker."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from poisonadmin.groups.commands.regrouping import FailureReader, request_regrouping, work
from poisonadmin.groups.domain import failures
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.groups.domain.regroup_plan import FailureMove, RegroupedFailure
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from workers.spark.jobs import regroup

Rule = Callable[[Failure], str]


def of(*parts: str) -> str:
    """Return a fingerprint of a former rule."""
    return hashlib.sha256("\0".join(("former", *parts)).encode()).hexdigest()[:16]


def by_class(failure: Failure) -> str:
    """Return the same for all failures of a class: the rules of this version split them."""
    return of(failure.exception_class)


def by_words(failure: Failure) -> str:
    """Return the same for the same words only: the rules of this version make one of many."""
    return of(failure.exception_class, failure.message)


def renamed(failure: Failure) -> str:
    """Return another one for what is the same by the rules of this version."""
    return of(failures.fingerprint(failure))


@contextmanager
def grouped(rule: Rule) -> Iterator[None]:
    """Have what is taken in meanwhile grouped by a former rule."""
    now = failures.fingerprint

    def former(failure: Failure) -> str:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(failures, "fingerprint", now)
            return rule(failure)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(failures, "fingerprint", former)
        yield


class Here:
    """Does what the Spark job does, in this process."""

    def survey(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> list[FailureMove]:
        extents = regroup.extents_of(ranges, files)
        return [FailureMove(**row) for part in range(len(extents)) for row in regroup.survey_part(extents, part)]

    def changes(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> list[RegroupedFailure]:
        extents = regroup.extents_of(ranges, files)
        return [
            RegroupedFailure(**row) for part in range(len(extents)) for row in regroup.changes_of_part(extents, part)
        ]


def regroup_with(failures: FailureReader, seconds: float = 60) -> None:
    """Have a worker carry out the regrouping that is due."""
    carry_out(work(failures), worker="tests", seconds=seconds)


def regrouped(failures: FailureReader | None = None) -> LongRun:
    """Ask for a regrouping, carry it out, and return it."""
    run = LongRun.objects.get(id=request_regrouping(actor="test").run_id)
    for _ in range(1000):
        regroup_with(failures or Here(), seconds=0.05)
        run.refresh_from_db()
        if run.ended_at is not None:
            assert (run.state, run.error) == ("succeeded", None)
            return run
    raise AssertionError(f"it does not end: {vars(run)}")


def groups_of(ids: Sequence[int]) -> list[int | None]:
    """Return the group of each message, in the order given."""
    found = dict(Message.objects.filter(id__in=ids).values_list("id", "group_id"))
    return [found[message_id] for message_id in ids]
