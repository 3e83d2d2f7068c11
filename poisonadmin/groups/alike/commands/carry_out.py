"""The work of searches for groups that look alike: Spark compares failures, and new proposals take the place of those
of before.

A search is done in one go of some seconds. One that is cut off is begun anew, and proposes the same.
"""

from collections.abc import Callable
from functools import partial

from django.db import connection, transaction

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.commands.requests import ALIKE_GROUPS
from poisonadmin.groups.alike.domain.differences import in_words
from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, AskedGroups, Proposal, ProposalState, propose
from poisonadmin.groups.alike.queries.compared_groups import compared_groups, groups_digest
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.store.models.failure_group import GroupProposal

Report = Callable[[str], None]
Compare = Callable[[AskedGroups, Report], AlikeAnswer]
"""Finds which of these fingerprints may be alike, and reports its next phase to the second argument. Passed in: what
compares (workers) imports this package."""


def work(compare: Compare) -> RunWork:
    """Return the work of searches for groups that look alike."""
    return RunWork(ALIKE_GROUPS, partial(_carry_out, compare))


def _carry_out(compare: Compare, turn: RunTurn) -> None:
    digest = groups_digest()
    now = compared_groups()
    answer = compare(now, turn.report)
    turn.report("proposing what to merge")
    dismissed = _dismissed()
    found = propose(now.groups, answer, dismissed=dismissed)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        if _dismissed() != dismissed:  # somebody has dismissed one meanwhile; who does it now waits
            found = propose(now.groups, answer, dismissed=_dismissed())
        GroupProposal.objects.filter(state=ProposalState.OPEN).delete()
        GroupProposal.objects.bulk_create(_row(one, answer) for one in found)
        result = {
            "groups": answer.compared,
            "left_out": now.left_out + len(now.groups) - answer.compared,
            "proposals": len(found),
            "groups_digest": digest,
        }
        turn.finish(result, done=answer.compared)


def _dismissed() -> set[str]:
    return set(GroupProposal.objects.filter(state=ProposalState.DISMISSED).values_list("digest", flat=True))


def _row(one: Proposal, answer: AlikeAnswer) -> GroupProposal:
    into, group = answer.failures[one.into.id], answer.failures[one.group.id]
    return GroupProposal(
        place=one.place,
        into_id=one.into.seen_as,
        group_id=one.group.seen_as,
        into_member=one.into.id,
        group_member=one.group.id,
        into_message=one.into.message_id,
        group_message=one.group.message_id,
        into_failure=into.as_json(),
        group_failure=group.as_json(),
        similarity=one.similarity,
        text=in_words(into, group, names=(f"#{one.into.seen_as}", f"#{one.group.seen_as}")),
        digest=one.digest,
    )
