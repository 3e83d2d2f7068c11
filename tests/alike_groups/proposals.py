"""Groups that look alike, as tests need them: failures taken in, the plain way to compare them, and a proposal."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import combinations

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.alike.commands import Compare, Report, request_search, work
from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, AskedGroups, ComparedGroup
from poisonadmin.groups.alike.domain.similarity import ComparedFailure, compared
from poisonadmin.groups.domain.failures import stored_failure
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.messages.domain.dead_letter import FIELDS, DeadLetter
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from poisonadmin.store.models.failure_group import GroupProposal
from poisonadmin.store.models.message import Envelope
from poisonadmin.store.models.run import LongRun


def take_in(failures: Sequence[DeadLetter], *, address: str = "orders.eu") -> list[int]:
    """Take in a dead letter of each failure; return the ids of their messages."""
    first = Envelope.objects.count()
    names = [f"{address} {first + at}" for at in range(len(failures))]
    lines = [
        json.dumps(
            {
                "address": address,
                "message_id": name,
                "payload": "x",
                "dead_letter": {field: text for field, text in asdict(one).items() if field in FIELDS and text},
            }
        )
        for name, one in zip(names, failures, strict=True)
    ]
    assert accept_stream(["\n".join(lines).encode()], principal=SYSTEM).accepted == len(failures)
    by_name = dict(Envelope.objects.filter(message_id__in=names).values_list("message_id", "id"))
    return [by_name[name] for name in names]


def every_pair(asked: AskedGroups, report: Report = lambda _: None) -> AlikeAnswer:
    """Compare every fingerprint with every other one, as the job does with those that may be alike."""
    failures = {one.id: _failure(one) for one in asked.groups}
    report("comparing all of them")
    return AlikeAnswer(len(failures), list(combinations(failures, 2)), failures)


def _failure(one: ComparedGroup) -> ComparedFailure:
    row = Attempt.objects.get(message_id=one.message_id, attempt_number=one.attempt_number)
    known = stored_failure(
        error_class=row.error_class or "",
        cause_class=row.cause_class,
        message=row.error_message or "",
        stack=row.stack or "",
        title=row.title or "",
        is_reported=True,
    )
    assert known is not None
    return compared(known)


def search_due(compare: Compare = every_pair, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
    """Carry out the search that is requested."""
    carry_out(work(compare), worker="tests", is_stopping=is_stopping, seconds=60)


def searched() -> LongRun:
    """Search for groups that look alike, and return the search."""
    made = request_search(principal=SYSTEM)
    search_due()
    return LongRun.objects.get(id=made)


def make_proposal(into_id: int) -> int:
    """Propose to merge a group of its own into this one; return the proposal's id."""
    other = FailureGroup.objects.create(
        fingerprint="a11ce" + "0" * 11, version=1, title="It looks alike", error_class="Alike"
    )
    failure = ComparedFailure("Alike", "no answer in <n> s", ("a.py:f",)).as_json()
    message = FailureGroup.objects.get(id=into_id).sample_message_id or 0
    return GroupProposal.objects.create(
        place=0,
        into_id=into_id,
        group_id=other.id,
        into_member=into_id,
        group_member=other.id,
        into_message=message,
        group_message=message,
        into_failure=failure,
        group_failure=failure,
        similarity=0.9,
        text="The same: all frames.",
        digest="d" * 16,
    ).id
