"""When an alert, or its end, is sent, and with which delivery: together, not too often, and not in quiet hours."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.kinds import AlertDeliveryState, AlertKind, ChannelKind
from poisonadmin.alerts.domain.rules import quiet_hours
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.store.models.alert import AlertDelivery, AlertRule

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
