"""Records when alerts begin and end, once a rule, together with the delivery that reports it. A tick looks for them.

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
from poisonadmin.alerts.domain.kinds import GROUP_KINDS, KINDS, AlertDeliveryState, AlertKind, ChannelKind
from poisonadmin.alerts.domain.rules import quiet_hours
from poisonadmin.alerts.queries.conditions import LASTING, UnseenGroup, places_of_groups
from poisonadmin.alerts.queries.watched import watched
from poisonadmin.core.queries.masking import OUTSIDE, with_titles
from poisonadmin.core.queries.rows import QueryTooExpensive, fetch_rows, fetch_values
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule

# When it was last sent that it began. What was reported as over since may begin again at once.
_LAST_OPENING = """
SELECT a.subject, max(d.planned_at) FROM alert a JOIN alert_delivery d ON d.id = a.delivery_id
     LEFT JOIN alert_delivery r ON r.id = a.resolution_id AND r.body IS NOT NULL
WHERE a.rule_id = %s AND a.kind = %s AND a.subject = ANY(%s) AND d.body IS NOT NULL AND d.state <> 'dropped'
GROUP BY 1 HAVING max(d.planned_at) >= coalesce(max(r.planned_at), '-infinity')
"""
_LAST_RESOLUTION = """
SELECT a.subject, max(r.planned_at) FROM alert a JOIN alert_delivery r ON r.id = a.resolution_id
WHERE a.rule_id = %s AND a.kind = %s AND a.subject = ANY(%s) AND r.body IS NOT NULL AND r.state <> 'dropped' GROUP BY 1
"""
_GATHERED = """
SELECT max(planned_at) FROM alert_delivery
WHERE rule_id = %s AND NOT is_test AND body IS NOT NULL AND planned_at <= %s AND planned_at > %s
"""


@dataclass(frozen=True)
class _Plan:
    """When a delivery is to be made, and whether it waits for that."""

    at: datetime
    is_held: bool


class Planner:
    """Plans when a rule reports on some subjects of a kind, in one transaction that has the rule locked."""

    def __init__(self, rule: AlertRule, kind: AlertKind, subjects: Sequence[str]) -> None:
        self._rule = rule
        self.now: datetime = fetch_values("SELECT now()")[0]
        values = [rule.id, kind, list(subjects)]
        self._openings: dict[str, datetime] = dict(fetch_rows(_LAST_OPENING, values))
        self._resolutions: dict[str, datetime] = dict(fetch_rows(_LAST_RESOLUTION, values))
        self._gathered = self._gathered_until()
        self._made: dict[tuple[_Plan, bool], AlertDelivery] = {}

    def opening(self, subject: str) -> AlertDelivery:
        """Return the delivery with which it is sent that something began."""
        return self._delivery(self._plan(self._openings.get(subject)), is_resolution=False)

    def resolution(self, subject: str) -> AlertDelivery:
        """Return the delivery with which it is sent that something is over."""
        return self._delivery(self._plan(self._resolutions.get(subject)), is_resolution=True)

    def resolution_before(self, opening: AlertDelivery) -> AlertDelivery:
        """Return the delivery that says what is over at the time at which `opening` says what began instead."""
        return self._delivery(_Plan(opening.planned_at, opening.is_held), is_resolution=True)

    def _gathered_until(self) -> datetime | None:
        """Return until when alerts are gathered, because something was sent a moment ago; None where they are not."""
        length = timedelta(seconds=CHANNELS[ChannelKind(self._rule.channel)].gathers_seconds)
        if not length:
            return None
        latest = fetch_values(_GATHERED, [self._rule.id, self.now, self.now - length])[0]
        return None if latest is None else latest + length

    def _plan(self, last: datetime | None) -> _Plan:
        again = None if last is None else last + timedelta(minutes=self._rule.repeat_minutes)
        at = max(one for one in (self.now, again, self._gathered) if one is not None)
        is_held = again is not None and again > self.now
        quiet = quiet_hours(self._rule.quiet_from, self._rule.quiet_until, self._rule.time_zone)
        if quiet is not None and (end := quiet.ends_at(at)) is not None:
            return _Plan(end, is_held=True)
        return _Plan(at, is_held=is_held)

    def _delivery(self, plan: _Plan, *, is_resolution: bool) -> AlertDelivery:
        """Return the delivery of this plan that nobody has begun to send, or make it."""
        if (plan, is_resolution) not in self._made:
            self._made[plan, is_resolution] = self._found(plan, is_resolution) or AlertDelivery.objects.create(
                rule=self._rule,
                webhook_id=new_webhook_id(),
                is_held=plan.is_held,
                is_resolution=is_resolution,
                planned_at=plan.at,
                due_at=plan.at,
            )
        return self._made[plan, is_resolution]

    def _found(self, plan: _Plan, is_resolution: bool) -> AlertDelivery | None:
        same = AlertDelivery.objects.select_for_update().filter(
            rule=self._rule,
            state=AlertDeliveryState.WAITING,
            body=None,
            is_test=False,
            is_held=plan.is_held,
            is_resolution=is_resolution,
        )
        same = same.filter(planned_at__lte=self.now) if plan.at <= self.now else same.filter(planned_at=plan.at)
        return same.order_by("id").first()


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
_OPEN_GROUPS = "SELECT id, rule_id, kind, subject FROM alert WHERE kind = ANY(%s) AND resolved_at IS NULL ORDER BY id"
_OF_DISABLED = """
UPDATE alert SET resolved_at = now() FROM alert_rule r
WHERE r.id = rule_id AND resolved_at IS NULL AND (NOT r.is_enabled OR alert.kind <> ALL(r.kinds))
"""
# The same occurrences, seen again after the rule was switched off and on, for example: they were reported.
_BEFORE = """
SELECT id, subject, mark, coalesce(resolution_id, 0) FROM alert
WHERE rule_id = %s AND kind = %s AND subject = ANY(%s) AND mark = ANY(%s) AND resolved_at IS NOT NULL
"""
_BEGUN = "SELECT id, body IS NOT NULL FROM alert_delivery WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
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
        found: list[Condition] = find(watched(rule, kind))
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
        resolve(rule, kind, over)
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
            # They are sent to whoever: nobody's role reads more.
            groups = with_titles([UnseenGroup(*(*row, places.get(row[0], {}))) for row in rows], OUTSIDE)
            names = _address_names(groups)
            for rule in rules:
                opened += _report_groups(rule, groups, names)
            cursor.execute(_SEEN, [[one.id for one in groups]])
    open_alerts = fetch_rows(_OPEN_GROUPS, [[str(kind) for kind in GROUP_KINDS]])
    waiting = places_of_groups([int(subject) for *_, subject in open_alerts]) if open_alerts else {}
    over: dict[tuple[int, str], list[int]] = {}
    for alert_id, rule_id, kind, subject in open_alerts:
        if int(subject) not in waiting:
            over.setdefault((rule_id, kind), []).append(alert_id)
    for rule in rules:
        for kind in GROUP_KINDS:
            if ids := over.get((rule.id, kind)):
                with transaction.atomic():
                    if _is_on(rule):
                        resolve(rule, kind, ids)
    return opened


def _report_groups(rule: AlertRule, groups: Sequence[UnseenGroup], names: Mapping[int, str]) -> int:
    opened = 0
    if not _is_on(rule):
        return opened
    for kind in GROUP_KINDS:
        if kind in rule.kinds and (of_kind := [one for one in groups if one.kind is kind]):
            of = watched(rule, kind)
            found = [one.condition(of, names) for one in of_kind]
            conditions = [one for one in found if one is not None]
            subjects = [one.subject for one in conditions]
            with connection.cursor() as cursor:
                cursor.execute(_OPEN, [rule.id, kind])
                resolve(rule, kind, [row[0] for row in cursor.fetchall() if row[1] in subjects])
            opened += _open(rule, kind, conditions)
    return opened


def _is_on(rule: AlertRule) -> bool:
    """Return whether the rule is still there and switched on; nobody deletes it before the transaction ends."""
    return bool(fetch_rows("SELECT id FROM alert_rule WHERE id = %s AND is_enabled FOR KEY SHARE", [rule.id]))


def _address_names(groups: Sequence[UnseenGroup]) -> dict[int, str]:
    ids = {address_id for one in groups for address_id in (*one.places, one.sample_address_id)}
    return dict(fetch_rows("SELECT id, name FROM address WHERE id = ANY(%s)", [list(ids - {None})]))


def _open(rule: AlertRule, kind: AlertKind, conditions: Sequence[Condition]) -> int:
    """Open alerts on conditions that have none open, each with its delivery; return how many. In a transaction."""
    if not conditions:
        return 0
    planner = Planner(rule, kind, [one.subject for one in conditions])
    marks = {one.subject: planner.now.isoformat() if one.mark is None else one.mark for one in conditions}
    before = _before(rule, kind, marks)
    openings: dict[str, AlertDelivery] = {}
    for one in conditions:
        known = before.get((one.subject, marks[one.subject]))
        if known is not None and not known.is_reported_over:
            Alert.objects.filter(id=known.id).update(resolved_at=None, resolution=None)
            continue
        openings[one.subject] = planner.opening(one.subject)
        if known is not None:
            Alert.objects.filter(id=known.id).update(resolved_at=None, resolution=None, delivery=openings[one.subject])
            continue
        Alert.objects.create(
            rule=rule,
            delivery=openings[one.subject],
            kind=str(kind),
            subject=one.subject,
            mark=marks[one.subject],
            title=one_line(one.title, MAX_TITLE_CHARS),
            path=one.path,
            facts=dict(one.facts),
        )
    postpone_resolutions(rule, kind, openings, planner)
    return len(openings)


@dataclass(frozen=True)
class _Before:
    """An alert that is over. `is_reported_over`: that was sent, or is being sent."""

    id: int
    is_reported_over: bool


def _before(rule: AlertRule, kind: AlertKind, marks: Mapping[str, str]) -> dict[tuple[str, str], _Before]:
    """Return what is over of the same occurrences, by subject and mark, with the deliveries that say so locked."""
    values = [rule.id, kind, list(marks), list(marks.values())]
    over = fetch_rows(_BEFORE, values)
    locked = dict(fetch_rows(_BEGUN, [[resolution for *_, resolution in over]]))
    return {(subject, mark): _Before(alert_id, locked.get(to, False)) for alert_id, subject, mark, to in over}


_RESOLVE = "UPDATE alert SET resolved_at = now() WHERE id = ANY(%s) AND resolved_at IS NULL RETURNING id, subject"
# The locks say whether it was sent: who is about to send it for the first time writes down how it is now.
_OPENINGS = """
SELECT id FROM alert_delivery WHERE id IN (SELECT delivery_id FROM alert WHERE id = ANY(%s)) ORDER BY id FOR SHARE
"""
_SENT = """
SELECT a.id FROM alert a JOIN alert_delivery d ON d.id = a.delivery_id
WHERE a.id = ANY(%s) AND d.body IS NOT NULL AND d.state <> 'dropped'
"""
_UNSENT = """
SELECT a.id, a.subject FROM alert a JOIN alert_delivery r ON r.id = a.resolution_id
WHERE a.rule_id = %s AND a.kind = %s AND a.subject = ANY(%s) AND r.state = 'waiting' AND r.body IS NULL
ORDER BY r.id FOR UPDATE OF r
"""


def resolve(rule: AlertRule, kind: AlertKind, ids: Sequence[int]) -> None:
    """Write down that alerts are over, and plan to send it. Call in a transaction that has the rule locked.

    What nobody was told of is not sent: a delivery that was not begun leaves out what is over by then, or says so.
    """
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_RESOLVE, [list(ids)])
        subjects = dict(cursor.fetchall())
        if not (rule.send_resolved and KINDS[kind].has_end and subjects):
            return
        cursor.execute(_OPENINGS, [list(subjects)])
    sent = [alert_id for (alert_id,) in fetch_rows(_SENT, [list(subjects)])]
    planner = Planner(rule, kind, list(subjects.values()))
    for alert_id in sent:
        Alert.objects.filter(id=alert_id).update(resolution=planner.resolution(subjects[alert_id]))


def postpone_resolutions(
    rule: AlertRule, kind: AlertKind, openings: Mapping[str, AlertDelivery], planner: Planner
) -> None:
    """Let what was not yet reported as over wait for the report that it began again: nobody is told that all is well.

    `openings`: by subject. Call in a transaction that has the rule locked.
    """
    for alert_id, subject in fetch_rows(_UNSENT, [rule.id, kind, list(openings)]):
        Alert.objects.filter(id=alert_id).update(resolution=planner.resolution_before(openings[subject]))
