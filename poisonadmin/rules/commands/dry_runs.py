"""Dry runs: what a rule would do to the stored backlog, looked at by whoever can (Spark), a wave at a time.

How far a run is stands in its row, so a run that is cut off goes on where it was.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, jobs
from poisonadmin.core.commands.job_work import TURN_SECONDS, job_of, working_on
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.rules.commands.table import locked_rule
from poisonadmin.rules.domain import rules as domain
from poisonadmin.rules.domain.dry_run import Found, Trial, from_json
from poisonadmin.store.models.job import JobKind
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import DryRun, Rule

Examine = Callable[[Trial, Sequence[IdRange]], Iterable[Found]]
"""Tries a rule on ranges of messages. Passed in: what examines (workers) imports this package."""

RANGE_MESSAGES = 25_000
RANGES_A_WAVE = 16
_PHASE = "trying the rule on stored messages"


def request_dry_run(rule_id: int, *, principal: Principal) -> DryRun:
    """Have the rule tried on what waits or is undecided now; return the run that is under way, where there is one.

    What a rule on payloads finds tells of these. Errors: `NotAllowed`, `NotFound`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        rule = locked_rule(rule_id, principal=principal)
        if domain.reads_payloads(rule.match):
            principal.require(Permission.READ_PAYLOAD)
        open_run = DryRun.objects.filter(rule_id=rule_id, rule_version=rule.version, finished_at__isnull=True).first()
        if open_run is not None:
            return open_run
        run = DryRun.objects.create(
            rule_id=rule_id,
            rule_version=rule.version,
            cut_off=Message.objects.aggregate(last=Max("id"))["last"] or 0,
            requested_by=principal.name,
        )
        audit.record(principal.name, "rule.dry_run_requested", "rule", rule.name, details={"version": rule.version})
    return run


def is_any_due() -> bool:
    """Return whether a dry run is asked for: one query, for who looks often."""
    return _due().exists()


def _due() -> QuerySet[DryRun]:
    return DryRun.objects.filter(finished_at__isnull=True)


def dry_run_due(
    examine: Examine,
    *,
    worker: str,
    keeper: JobHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the dry runs that are asked for, one after the other, for about `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not is_stopping():
        run = _due().order_by("id").first()
        if run is None:
            return
        params = {"rule_id": run.rule_id, "dry_run_id": run.id}
        job_id = job_of(run, JobKind.DRY_RUN, worker=worker, params=params, phase=_PHASE)
        with working_on(job_id, fail=partial(_end, run, job_id), keeper=keeper, is_stopping=is_stopping):
            _go_on(run, job_id, examine, lambda: is_stopping() or time.monotonic() >= until)


def _go_on(run: DryRun, job_id: int, examine: Examine, must_pause: Callable[[], bool]) -> None:
    trial = _trial(run)
    if trial is None:
        _end(run, job_id, "The rule was changed or removed meanwhile; ask for another dry run.")
        return
    after = int(run.report.get("after", 0))
    found = from_json(run.read, run.matched, run.report.get("found", []))
    while after < run.cut_off:
        if must_pause():
            return
        ranges = next_ranges(after, run.cut_off, messages=RANGE_MESSAGES, most=RANGES_A_WAVE)
        for one in examine(trial, ranges):
            found.add(one)
        if found.error is not None:
            _end(run, job_id, found.error)
            return
        after = ranges[-1].until
        _store(run, found, after)
        jobs.move(job_id, phase=_PHASE, done=found.read)
    with transaction.atomic():
        _store(run, found, run.cut_off)
        Rule.objects.filter(id=run.rule_id, version=run.rule_version).update(checked_version=run.rule_version)
        DryRun.objects.filter(id=run.id).update(finished_at=Now())
        jobs.succeed(job_id, counts={"read": found.read, "matched": found.matched}, done=found.read)


def _trial(run: DryRun) -> Trial | None:
    row = Rule.objects.filter(id=run.rule_id, version=run.rule_version).first()
    if row is None:
        return None
    rule = domain.RuleDefinition(row.id, row.name, row.version, row.match, row.action)
    covered = [address_id for address_id, name in Address.objects.values_list("id", "name") if rule.covers(name)]
    return Trial(domain.Stage(row.stage), rule, tuple(covered))


def _store(run: DryRun, found: Found, after: int) -> None:
    report = {"found": found.as_json(), "after": after}
    DryRun.objects.filter(id=run.id).update(read=found.read, matched=found.matched, report=report)


def _end(run: DryRun, job_id: int, error: str) -> None:
    DryRun.objects.filter(id=run.id).update(finished_at=Now(), error=error[:4000])
    jobs.fail(job_id, error=error)
