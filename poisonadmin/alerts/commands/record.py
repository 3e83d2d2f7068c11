"""What is the matter is found by a tick, and recorded once a rule, together with the delivery that is to be made of it.

An alert opens when its condition begins and is resolved when that ends. Killed at any line, a tick has recorded an
alert and its delivery, or neither; the next tick finds the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection, transaction

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.conditions import MAX_TITLE_CHARS, Condition, one_line
from poisonadmin.alerts.domain.kinds import GROUP_KINDS, AlertDeliveryState, AlertKind, ChannelKind
from poisonadmin.alerts.domain.rules import quiet_hours
from poisonadmin.alerts.queries.conditions import LASTING, UnseenGroup, places_of_groups, watched
from poisonadmin.core.queries.rows import QueryTooExpensive, fetch_rows, fetch_values
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule

# A tick that follows goes on with the rest.
GROUPS_A_TICK = 500

# Those that a settle holds at the moment are left to the next tick: nobody waits for anybody.
_UNSEEN = """
SELECT g.id, g.title, g.error_class, g.quiet_since, g.resumed_at,
       (SELECT address_id FROM message WHERE id = g.sample_message_id)
FROM failure_group g WHERE g.is_unseen ORDER BY g.fingerprint LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
_SEEN = "UPDATE failure_group SET is_unseen = FALSE WHERE id = ANY(%s)"
_OPEN = "SELECT id, subject, mark FROM alert WHERE rule_id = %s AND kind = %s AND resolved_at IS NULL"
_RESOLVE = "UPDATE alert SET resolved_at = now() WHERE id = ANY(%s) AND resolved_at IS NULL"
_OF_DISABLED = """
UPDATE alert SET resolved_at = now() FROM alert_rule r
WHERE r.id = rule_id AND resolved_at IS NULL AND (NOT r.is_enabled OR alert.kind <> ALL(r.kinds))
"""
# The same occurrence, seen again after the rule was switched off and on: it was reported.
_REOPEN = """
UPDATE alert SET resolved_at = NULL
WHERE rule_id = %s AND kind = %s AND subject = %s AND mark = %s AND resolved_at IS NOT NULL
"""
_LAST = """
SELECT a.subject, max(d.planned_at) FROM alert a JOIN alert_delivery d ON d.id = a.delivery_id
WHERE a.rule_id = %s AND a.kind = %s AND a.subject = ANY(%s) AND d.state <> 'dropped' GROUP BY 1
"""
_GATHERED = """
SELECT max(planned_at) FROM alert_delivery
WHERE rule_id = %s AND NOT is_test AND body IS NOT NULL AND planned_at <= %s AND planned_at > %s
"""
log = structlog.get_logger(__name__)


def record_alerts() -> int:
    """Look for what is the matter, record what is new, resolve what is over; return how many alerts were opened.

    Call under `single_flight(Tick.ALERTS)`. A rule that fails does not keep the others from their turn.
    Errors: the last such one's.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OF_DISABLED)
    rules = list(AlertRule.objects.filter(is_enabled=True).order_by("id"))
    opened = _record_groups(rules)
    with_open = set(fetch_rows("SELECT DISTINCT rule_id, kind FROM alert WHERE resolved_at IS NULL"))
    failed: Exception | None = None
    for rule in rules:
        for kind, find in LASTING.items():
            try:
                if kind in rule.kinds:
                    opened += _record_lasting(rule, kind, find, is_open=(rule.id, kind) in with_open)
            except Exception as error:
                failed = error
    if failed is not None:
        raise failed
    return opened


def _record_lasting(rule: AlertRule, kind: AlertKind, find: Any, *, is_open: bool) -> int:
    try:
        found: list[Condition] = find(watched(rule.addresses, rule.limits.get(kind, 0)))
    except QueryTooExpensive:
        log.warning("an alert rule was not checked: its query took too long", rule=rule.name, kind=str(kind))
        return 0
    if not (found or is_open):
        return 0
    now_true = {one.subject: one for one in found}
    with transaction.atomic(), connection.cursor() as cursor:
        if not _is_on(rule):
            return 0
        cursor.execute(_OPEN, [rule.id, kind])
        open_alerts = {subject: (alert_id, mark) for alert_id, subject, mark in cursor.fetchall()}
        over = [
            alert_id
            for subject, (alert_id, mark) in open_alerts.items()
            if subject not in now_true or now_true[subject].mark not in (None, mark)
        ]
        if over:
            cursor.execute(_RESOLVE, [over])
        still = {subject for subject, (alert_id, _) in open_alerts.items() if alert_id not in over}
        return _open(rule, kind, [one for one in found if one.subject not in still])


def _record_groups(rules: Sequence[AlertRule]) -> int:
    """Report the groups that no tick has seen; resolve the alerts on groups that have no message left to wait for."""
    opened = 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_UNSEEN, [GROUPS_A_TICK])
        rows = cursor.fetchall()
        if rows:
            places = places_of_groups([row[0] for row in rows])
            groups = [UnseenGroup(*(*row, places.get(row[0], {}))) for row in rows]
            names = _address_names(groups)
            for rule in rules:
                opened += _report_groups(rule, groups, names)
            cursor.execute(_SEEN, [[one.id for one in groups]])
    of_groups = "SELECT id, subject FROM alert WHERE kind = ANY(%s) AND resolved_at IS NULL"
    open_alerts = fetch_rows(of_groups, [[str(kind) for kind in GROUP_KINDS]])
    if open_alerts:
        waiting = places_of_groups([int(subject) for _, subject in open_alerts])
        over = [alert_id for alert_id, subject in open_alerts if int(subject) not in waiting]
        with connection.cursor() as cursor:
            cursor.execute(_RESOLVE, [over])
    return opened


def _report_groups(rule: AlertRule, groups: Sequence[UnseenGroup], names: Mapping[int, str]) -> int:
    opened = 0
    if not _is_on(rule):
        return opened
    for kind in GROUP_KINDS:
        if kind in rule.kinds and (of_kind := [one for one in groups if one.kind is kind]):
            of = watched(rule.addresses, rule.limits.get(kind, 0))
            found = [one.condition(of, names) for one in of_kind]
            conditions = [one for one in found if one is not None]
            subjects = [one.subject for one in conditions]
            with connection.cursor() as cursor:
                cursor.execute(_OPEN, [rule.id, kind])
                cursor.execute(_RESOLVE, [[row[0] for row in cursor.fetchall() if row[1] in subjects]])
            opened += _open(rule, kind, conditions)
    return opened


def _is_on(rule: AlertRule) -> bool:
    """Return whether the rule is still there and switched on; nobody deletes it before the transaction ends."""
    return bool(fetch_rows("SELECT id FROM alert_rule WHERE id = %s AND is_enabled FOR KEY SHARE", [rule.id]))


def _address_names(groups: Sequence[UnseenGroup]) -> dict[int, str]:
    ids = {address_id for one in groups for address_id in (*one.places, one.sample_address_id)}
    return dict(fetch_rows("SELECT id, name FROM address WHERE id = ANY(%s)", [list(ids - {None})]))


@dataclass(frozen=True)
class _Plan:
    """When a delivery is to be made, and whether it waits for that."""

    at: datetime
    is_held: bool


def _open(rule: AlertRule, kind: AlertKind, conditions: Sequence[Condition]) -> int:
    """Open alerts on conditions that have none open, each with its delivery; return how many. In a transaction."""
    if not conditions:
        return 0
    now: datetime = fetch_values("SELECT now()")[0]
    last = dict(fetch_rows(_LAST, [rule.id, kind, [one.subject for one in conditions]]))
    gathered = _gathered_until(rule, now)
    deliveries: dict[_Plan, AlertDelivery] = {}
    opened = 0
    for one in conditions:
        mark = now.isoformat() if one.mark is None else one.mark
        if _reopened(rule, kind, one.subject, mark):
            continue
        plan = _plan(rule, now, last.get(one.subject), gathered)
        if plan not in deliveries:
            deliveries[plan] = _delivery(rule, plan, now)
        Alert.objects.create(
            rule=rule,
            delivery=deliveries[plan],
            kind=str(kind),
            subject=one.subject,
            mark=mark,
            title=one_line(one.title, MAX_TITLE_CHARS),
            path=one.path,
            facts=dict(one.facts),
        )
        opened += 1
    return opened


def _reopened(rule: AlertRule, kind: AlertKind, subject: str, mark: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_REOPEN, [rule.id, kind, subject, mark])
        return bool(cursor.rowcount)


def _gathered_until(rule: AlertRule, now: datetime) -> datetime | None:
    """Return until when alerts are gathered, because something was sent a moment ago; None where they are not."""
    length = timedelta(seconds=CHANNELS[ChannelKind(rule.channel)].gathers_seconds)
    if not length:
        return None
    latest = fetch_values(_GATHERED, [rule.id, now, now - length])[0]
    return None if latest is None else latest + length


def _plan(rule: AlertRule, now: datetime, last: datetime | None, gathered: datetime | None) -> _Plan:
    again = None if last is None else last + timedelta(minutes=rule.repeat_minutes)
    at = max(one for one in (now, again, gathered) if one is not None)
    is_held = again is not None and again > now
    quiet = quiet_hours(rule.quiet_from, rule.quiet_until, rule.time_zone)
    if quiet is not None and (end := quiet.ends_at(at)) is not None:
        return _Plan(end, is_held=True)
    return _Plan(at, is_held=is_held)


def _delivery(rule: AlertRule, plan: _Plan, now: datetime) -> AlertDelivery:
    """Return the delivery of this rule and plan that nobody has begun to send, or make it."""
    same = AlertDelivery.objects.select_for_update().filter(
        rule=rule, state=AlertDeliveryState.WAITING, body=None, is_test=False, is_held=plan.is_held
    )
    same = same.filter(planned_at__lte=now) if plan.at == now else same.filter(planned_at=plan.at)
    found = same.order_by("id").first()
    return found or AlertDelivery.objects.create(
        rule=rule, webhook_id=new_webhook_id(), is_held=plan.is_held, planned_at=plan.at, due_at=plan.at
    )
