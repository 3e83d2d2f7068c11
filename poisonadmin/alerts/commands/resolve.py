"""The end of alerts: written down at once, and sent where it was sent that they began."""

from collections.abc import Mapping, Sequence

from django.db import connection

from poisonadmin.alerts.commands.planning import Planner
from poisonadmin.alerts.domain.kinds import KINDS, AlertKind
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule

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
