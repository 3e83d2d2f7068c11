"""The work of comparisons: messages are chosen here, and compared by Spark.

A comparison is done in one go of some seconds. One that is cut off is begun anew, and the same messages are chosen.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from poisonadmin.comparisons.commands.requests import COMPARISON
from poisonadmin.comparisons.domain.comparison import Compared, ComparisonAnswer
from poisonadmin.comparisons.queries.chosen import Chosen, choose_failing, choose_others, compared, delivered_beside
from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.queries.runs import StoredRun

Report = Callable[[str], None]
Compare = Callable[[Compared, Report], ComparisonAnswer]
"""Compares messages, and reports its next phase to the second argument. Passed in: what compares (workers) imports
this package."""


def work(compare: Compare) -> RunWork:
    """Return the work of comparisons."""
    return RunWork(COMPARISON, partial(_carry_out, compare))


def _carry_out(compare: Compare, turn: RunTurn) -> None:
    run, principal = turn.run, _principal(turn.run)
    params = run.params
    failing = choose_failing(params["selection_id"], seed=run.id, principal=principal)
    if not failing.ids:
        raise PoisonAdminError("None of the messages is there any more.")
    turn.report(COMPARISON.first_phase)
    against, others = _others(run, failing, principal)
    result: dict[str, Any] = {
        "against": against,
        "failing_count": failing.count,
        "others_count": others.count,
        "address_ids": sorted({*failing.address_ids, *others.address_ids}),
        "former_address_ids": sorted({*failing.former_address_ids, *others.former_address_ids}),
    }
    turn.store(result=result)
    turn.report("starting Spark")
    answer = ComparisonAnswer(len(failing.ids), 0, 0, 0, [])
    if others.ids:
        # What was delivered elsewhere is at other addresses because we looked there.
        excluded_fields = ("address",) if params["against"] is None and "address" not in against else ()
        both = compared(
            failing, others, with_payload=params["with_payload"], principal=principal, excluded_fields=excluded_fields
        )
        answer = compare(both, turn.report)
    figures = {name: getattr(answer, name) for name in ("failing", "others", "fields", "tested")}
    findings = [one.as_json() for one in answer.findings]
    turn.finish(result | figures | {"findings": findings}, done=answer.failing + answer.others)


def _others(run: StoredRun, failing: Chosen, principal: Principal) -> tuple[Mapping[str, list[str]], Chosen]:
    """Return what the failing messages are compared with, as a filter and as ids."""
    given, selection_id = run.params["against"], run.params["selection_id"]
    against = delivered_beside(failing, principal=principal) if given is None else given
    others = choose_others(against, selection_id, seed=run.id, principal=principal)
    if not others.ids and given is None:
        # Where everything fails, what was delivered elsewhere still tells what is special here.
        against = {name: texts for name, texts in against.items() if name != "address"}
        others = choose_others(against, selection_id, seed=run.id, principal=principal)
    return against, others


def _principal(run: StoredRun) -> Principal:
    """Return the account that requested the comparison, with the rights of then."""
    permissions = {Permission.READ, *([Permission.READ_PAYLOAD] if run.params["with_payload"] else [])}
    patterns = tuple(tuple(some) for some in run.patterns)
    return Principal(run.requested_by, Role.VIEWER, frozenset(permissions), patterns, user=run.account)
