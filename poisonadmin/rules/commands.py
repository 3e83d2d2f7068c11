"""The table of rules: written, ordered, tried on stored messages, removed. Each change is audited.

It holds from the next delivery on. Spark tries a rule on the stored backlog, a wave of ranges at a time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import NotAllowed, OutOfScope, Permission, Principal
from poisonadmin.core.domain.errors import (
    AlreadyExists,
    NotFound,
    PoisonAdminError,
    require_version,
)
from poisonadmin.core.domain.globs import glob
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.rules.domain import rules as domain
from poisonadmin.rules.domain.dry_run import Found, Trial, from_json
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import RuleFields, Stage, checked_rule, reads_payloads
from poisonadmin.rules.queries import covered_by, covers_rule, definition_of, require_readable
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import Rule


def create_rule(stage: str, fields: RuleFields, *, principal: Principal) -> Rule:
    """Add a rule at the end of its stage's table, switched off.

    Errors: `NotAllowed`, `InvalidRule`, `AlreadyExists`.
    """
    principal.require(Permission.CONFIGURE)
    values = _checked(Stage(stage), fields, principal)
    with transaction.atomic():
        last = Rule.objects.filter(stage=stage).aggregate(last=Max("position"))["last"] or 0
        row = _saved(Rule(stage=stage, position=last + 1, **values), fields.name)
        audit.record(principal.name, "rule.created", "rule", row.name, details=_described(values))
    return row


def replace_rule(
    rule_id: int, fields: RuleFields, *, principal: Principal, expected_version: int | None = None
) -> Rule:
    """Replace what a rule says; its stage and its place stay.

    A rule before deliveries that matches or does something else is switched off: what was dry-run is another rule.
    Errors: `NotAllowed`, `InvalidRule`, `AlreadyExists`, `NotFound`, `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        require_version(f"rule {row.name}", row, expected_version)
        values = _checked(Stage(row.stage), fields, principal, before=row)
        before = _described({name: getattr(row, name) for name in values})
        is_same = (row.match, row.action) == (values["match"], values["action"])
        if is_same:
            row.checked_version = row.version + 1 if row.checked_version == row.version else None
        else:
            row.hits, row.last_hit_at, row.checked_version, row.fault = 0, None, None, None
            row.is_enabled = row.is_enabled and row.stage == Stage.AFTER
        row.version += 1
        for name, value in values.items():
            setattr(row, name, value)
        kept = ["hits", "last_hit_at", "checked_version", "fault", "is_enabled", "version"]
        _saved(row, fields.name, update_fields=[*values, *kept])
        details = {"version": row.version, "was": before, "is": _described(values)}
        audit.record(principal.name, "rule.saved", "rule", row.name, details=details)
    row.refresh_from_db()
    return row


def delete_rule(rule_id: int, *, principal: Principal) -> None:
    """Remove a rule; what it has decided stays decided. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        details = _described({name: getattr(row, name) for name in ("match", "action", "owner", "note", "ends_at")})
        Rule.objects.filter(id=rule_id).delete()
        audit.record(principal.name, "rule.deleted", "rule", row.name, details=details)


def move_rule(rule_id: int, position: int, *, principal: Principal) -> Rule:
    """Give a rule another place in its stage's table, 1 the first; the others close up.

    The order concerns every address. Errors: `NotAllowed`, `NotFound`, `InvalidRule`.
    """
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed(f"The order of rules concerns every address, and {principal.name} is limited to some.")
    with transaction.atomic():
        stage = locked_rule(rule_id, principal=principal).stage
        ids = list(Rule.objects.filter(stage=stage).order_by("position", "id").values_list("id", flat=True))
        if not 1 <= position <= len(ids):
            raise InvalidRule("position", f"must be within 1..{len(ids)}.")
        ids.remove(rule_id)
        ids.insert(position - 1, rule_id)
        rows = {row.id: row for row in Rule.objects.select_for_update().filter(id__in=ids).order_by("id")}
        for place, one in enumerate(ids, start=1):
            if rows[one].position != place:
                Rule.objects.filter(id=one).update(position=place)
        row = rows[rule_id]
        audit.record(principal.name, "rule.moved", "rule", row.name, details={"was": row.position, "is": position})
    row.refresh_from_db()
    return row


def locked_rule(rule_id: int, *, principal: Principal) -> Rule:
    """Return the rule, locked; raise NotFound."""
    row = Rule.objects.select_for_update().filter(id=rule_id).first()
    if row is None or not covers_rule(principal, row.match):
        raise NotFound(f"There is no rule {rule_id}.")
    return row


def _checked(stage: Stage, fields: RuleFields, principal: Principal, before: Rule | None = None) -> dict[str, Any]:
    values = vars(checked_rule(stage, fields))
    match, action = values["match"], values["action"]
    if reads_payloads(match):
        principal.require(Permission.READ_PAYLOAD)
    if not covers_rule(principal, match):
        raise NotAllowed(f"This rule reaches beyond the addresses that {principal.name} is limited to.")
    _require_seen(principal, match, action, before)
    by = principal.name
    return values | {"owner": values["owner"] or by, "updated_by": by, "updated_at": Now()}


def _require_seen(
    principal: Principal, match: Mapping[str, Any], action: Mapping[str, Any], before: Rule | None
) -> None:
    """Raise OutOfScope for what a rule names anew, and its author does not see."""
    target, pattern = action.get("address"), match.get("destination")
    if target is not None and (before is None or before.action.get("address") != target):
        principal.require_seen(target, field="action.address")
    is_new = before is None or before.match.get("destination") != pattern
    if pattern is not None and is_new and not principal.sees_everything:
        fits = glob(pattern)
        owned = Destination.objects.values_list("name", "owner")
        if not any(fits(name) and principal.covers(owner) for name, owner in owned):
            raise OutOfScope("match.destination", f"destination {pattern}")


def _saved(row: Rule, name: str, **options: Any) -> Rule:
    try:
        with transaction.atomic():
            row.save(**options or {"force_insert": True})
    except IntegrityError:
        raise AlreadyExists(f"There is a rule {name} already.") from None
    row.refresh_from_db()
    return row


def _described(values: Mapping[str, Any]) -> dict[str, Any]:
    reported = {name: values[name] for name in ("name", "match", "action", "owner", "note") if name in values}
    ends_at = values.get("ends_at")
    return reported | {"ends_at": ends_at.isoformat() if ends_at else None}


class NotDryRun(PoisonAdminError):
    """Raised when a rule before deliveries is to be switched on without a dry run of its present version."""

    code = "not_dry_run"
    status = 409


def enable_rule(rule_id: int, *, principal: Principal, reason: str, override: bool = False) -> Rule:
    """Switch a rule on. A rule before deliveries must have been dry-run as it is; with `override` it need not.

    Errors: `NotAllowed`, `NotFound`, `NotDryRun`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        is_tried = row.stage == Stage.AFTER or row.checked_version == row.version
        if not is_tried and not override:
            raise NotDryRun(f"The rule {row.name} has not been dry-run as it is; nothing was switched on.")
        Rule.objects.filter(id=rule_id).update(is_enabled=True, fault=None)
        details = {"version": row.version, "without_dry_run": not is_tried}
        audit.record(principal.name, "rule.enabled", "rule", row.name, note=reason, details=details)
    row.refresh_from_db()
    return row


def disable_rule(rule_id: int, *, principal: Principal, reason: str) -> Rule:
    """Switch a rule off. What is being delivered goes on as it began. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        Rule.objects.filter(id=rule_id).update(is_enabled=False)
        audit.record(principal.name, "rule.disabled", "rule", row.name, note=reason, details={"version": row.version})
    row.refresh_from_db()
    return row


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
    cancelled_by=None,
)


def request_dry_run(rule_id: int, *, principal: Principal) -> int:
    """Request a dry run of the rule on what waits or is undecided now, unless one is open; return the run's id.

    What a rule finds tells of these. Errors: `NotAllowed`, `NotFound`, `Masked`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        rule = locked_rule(rule_id, principal=principal)
        require_readable(definition_of(rule), principal)
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


def dry_run_work(examine: Examine) -> RunWork:
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
    rule = definition_of(row)
    return Trial(domain.Stage(row.stage), rule, tuple(covered_by(rule)))
