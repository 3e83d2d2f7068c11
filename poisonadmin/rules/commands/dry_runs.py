"""Dry runs: a rule is tried on the stored backlog by Spark, a wave of ranges at a time."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import transaction
from django.db.models import Max

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.rules.commands.table import locked_rule
from poisonadmin.rules.domain import rules as domain
from poisonadmin.rules.domain.dry_run import Found, Trial, from_json
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import Rule

Examine = Callable[[Trial, Sequence[IdRange]], Iterable[Found]]
"""Tries a rule on ranges of messages. Passed in: what examines (workers) imports this package."""

RANGE_MESSAGES = 25_000
RANGES_A_WAVE = 16
# `params`: `rule_id`, `rule_version`, and `cut_off`, the last message; `position`: `after`, a message's id; `result`:
# `read`, `matched`, and `found` as domain/dry_run.py says.
DRY_RUN = RunKind(
    KindName.DRY_RUN,
    noun="dry run",
    audited_as="rule.dry_run_{}",
    audited_object="rule",
    first_phase="trying the rule on stored messages",
    cancelled_by=Permission.CONFIGURE,
)


def request_dry_run(rule_id: int, *, principal: Principal) -> int:
    """Request a dry run of the rule on what waits or is undecided now, unless one is open; return the run's id.

    What a rule on payloads finds tells of these. Errors: `NotAllowed`, `NotFound`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        rule = locked_rule(rule_id, principal=principal)
        if domain.reads_payloads(rule.match):
            principal.require(Permission.READ_PAYLOAD)
        of_rule = {"rule_id": rule_id, "rule_version": rule.version}
        cut_off = Message.objects.aggregate(last=Max("id"))["last"] or 0
        run = request_run(
            DRY_RUN,
            of_rule | {"cut_off": cut_off},
            principal=principal,
            reuse=of_rule,
            object_id=rule.name,
            details={"version": rule.version},
        )
    return run.id


def work(examine: Examine) -> RunWork:
    """Return the work of dry runs."""
    return RunWork(DRY_RUN, partial(_carry_out, examine))


def _carry_out(examine: Examine, turn: RunTurn) -> None:
    run = turn.run
    rule_id, version, cut_off = (run.params[name] for name in ("rule_id", "rule_version", "cut_off"))
    trial = _trial(rule_id, version)
    if trial is None:
        raise PoisonAdminError("The rule was changed or removed meanwhile; request another dry run.")
    after = run.position.get("after", 0)
    found = from_json(**run.result) if run.result else Found()
    while after < cut_off:
        if turn.must_pause():
            return
        ranges = next_ranges(after, cut_off, messages=RANGE_MESSAGES, most=RANGES_A_WAVE)
        for one in examine(trial, ranges):
            found.add(one)
        if found.error is not None:
            raise PoisonAdminError(found.error)
        after = ranges[-1].until
        turn.store(position={"after": after}, result=found.as_json(), done=found.read)
    with transaction.atomic():
        turn.finish(found.as_json(), done=found.read)
        Rule.objects.filter(id=rule_id, version=version).update(checked_version=version)


def _trial(rule_id: int, version: int) -> Trial | None:
    row = Rule.objects.filter(id=rule_id, version=version).first()
    if row is None:
        return None
    rule = domain.RuleDefinition(row.id, row.name, row.version, row.match, row.action)
    covered = [address_id for address_id, name in Address.objects.values_list("id", "name") if rule.covers(name)]
    return Trial(domain.Stage(row.stage), rule, tuple(covered))
