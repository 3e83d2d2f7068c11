"""The outbox: alerts and notices of reports are sent at least once, each try with the same id and the same content.

The time of the next try is written before a try begins. One that dies with its worker is made again then.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Value
from django.db.models.functions import Now

from poisonadmin.alerts.channels.contract import ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.domain.kinds import AlertDeliveryState, ChannelKind
from poisonadmin.alerts.domain.notices import MAX_TRIES, NoticeType, ReportedAlert, body_of, wait_seconds
from poisonadmin.core.domain.encryption import UnreadableSecret
from poisonadmin.core.domain.errors import error_text
from poisonadmin.core.queries.rows import fetch
from poisonadmin.store.models.alert import AlertDelivery, AlertRule
from poisonadmin.store.models.report import SavedReport

AT_ONCE = 10
# For all that is sent at once: so long a tick waits, and no longer.
SECONDS_A_TRY = 12.0
# What a tick does not get done the next one goes on with.
SECONDS_A_TICK = 10.0
KEPT_DAYS = 30

# One of a rule or a saved report at a time, so that a receiver that hangs does not take every place.
# That something is over is sent after its beginning has arrived or was given up, and before what began instead.
_DUE = """
SELECT id, rule_id, saved_id FROM (
    SELECT DISTINCT ON (rule_id, saved_id) id, rule_id, saved_id, due_at FROM alert_delivery d
    WHERE state = 'waiting' AND due_at <= now() AND (is_test OR NOT %s) AND NOT (is_resolution AND EXISTS (
        SELECT FROM alert a JOIN alert_delivery opening ON opening.id = a.delivery_id
        WHERE a.resolution_id = d.id AND opening.state = 'waiting'))
    ORDER BY rule_id, saved_id, due_at, is_resolution DESC, id
) AS first_of_sender ORDER BY due_at, id LIMIT %s
"""
_LOCK = """
SELECT d.id, d.webhook_id, d.tries, d.is_held, d.is_test, d.is_resolution, d.body, now() AS at
FROM alert_delivery d WHERE d.id = %s AND d.state = 'waiting' AND d.due_at <= now() FOR UPDATE SKIP LOCKED
"""
_ALERTS = """
SELECT id, kind, title, path, facts, opened_at, resolved_at FROM alert WHERE delivery_id = %s ORDER BY id
"""
_RESOLVED = """
SELECT id, kind, title, path, facts, opened_at, resolved_at FROM alert
WHERE resolution_id = %s AND resolved_at IS NOT NULL ORDER BY id
"""
_BEGIN = """
UPDATE alert_delivery SET tries = tries + 1, body = %s, due_at = now() + %s * interval '1 s' WHERE id = %s
"""
_ANSWERED = """
UPDATE alert_delivery SET state = %(state)s, answered_at = now(), log = log || %(entry)s::jsonb
WHERE id = %(id)s AND tries = %(tries)s AND state = 'waiting'
"""
_FAILING = (
    "UPDATE alert_rule SET failing_since = CASE WHEN %s THEN NULL ELSE coalesce(failing_since, now()) END WHERE id = %s"
)
_FORGET = (
    "DELETE FROM alert WHERE resolved_at < now() - %(kept)s * interval '1 day'",
    """DELETE FROM alert_delivery d WHERE state <> 'waiting' AND created_at < now() - %(kept)s * interval '1 day'
        AND NOT EXISTS (SELECT FROM alert WHERE delivery_id = d.id)
        AND NOT EXISTS (SELECT FROM alert WHERE resolution_id = d.id)""",
)


@dataclass(frozen=True)
class _DueDelivery:
    id: int
    webhook_id: str
    tries: int
    is_held: bool
    is_test: bool
    is_resolution: bool
    body: str | None
    at: datetime


@dataclass(frozen=True)
class _Try:
    """One try that has begun. `number`: counted from one since the delivery was made, or was sent again by hand."""

    delivery_id: int
    rule_id: int | None
    channel: ChannelKind
    number: int
    is_test: bool
    notice: Notice


def send_due(
    post: HttpPost,
    *,
    only_tests: bool = False,
    seconds: float = SECONDS_A_TICK,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Send what is due, several at once, for about `seconds`; return how many tries were made."""
    until, tries = clock() + seconds, 0
    while clock() < until:
        with connection.cursor() as cursor:
            cursor.execute(_DUE, [only_tests, AT_ONCE])
            due = cursor.fetchall()
        if not due:
            break
        begun = [one for row in due if (one := _begin(*row)) is not None]
        _send_all(begun, post)
        tries += len(begun)
    return tries


def forget_old() -> None:
    """Remove alerts that have been over for 30 days, and their deliveries."""
    with connection.cursor() as cursor:
        for statement in _FORGET:
            cursor.execute(statement, {"kept": KEPT_DAYS})


def _begin(delivery_id: int, rule_id: int | None, saved_id: int | None) -> _Try | None:
    """Write down that a try begins, and when the next one is; None where there is nothing to send."""
    with transaction.atomic(), connection.cursor() as cursor:
        sender = _locked_sender(rule_id, saved_id)
        found = fetch(_DueDelivery, _LOCK, [delivery_id])
        if sender is None or not found:
            return None
        locked = found[0]
        if locked.tries >= (1 if locked.is_test else MAX_TRIES):
            # The last try has died with its worker.
            _end(locked.id, AlertDeliveryState.FAILED)
            cursor.execute(_FAILING, [False, rule_id])
            return None
        body = locked.body or (_composed(locked, sender) if isinstance(sender, AlertRule) else None)
        channel = sender.channel
        if body is None or channel is None or not _is_wanted(locked, sender):
            _end(locked.id, AlertDeliveryState.DROPPED)
            return None
        cursor.execute(_BEGIN, [body, wait_seconds(locked.tries + 1), locked.id])
    try:
        secrets = sender.secrets
    except UnreadableSecret as error:
        unsent = Notice(locked.webhook_id, body, sender.to, [], locked.at)
        one = _Try(locked.id, rule_id, ChannelKind(channel), locked.tries + 1, locked.is_test, unsent)
        _settle(one, ChannelAnswer(is_taken=False, text=error.detail))
        return None
    if isinstance(sender, AlertRule) and (sender.old_secret_until is None or sender.old_secret_until <= locked.at):
        secrets = secrets[:1]
    notice = Notice(locked.webhook_id, body, sender.to, secrets, locked.at)
    return _Try(locked.id, rule_id, ChannelKind(channel), locked.tries + 1, locked.is_test, notice)


def _locked_sender(rule_id: int | None, saved_id: int | None) -> AlertRule | SavedReport | None:
    if saved_id is not None:
        return SavedReport.objects.select_for_update(no_key=True).filter(id=saved_id).first()
    assert rule_id is not None
    return AlertRule.objects.select_for_update(no_key=True).filter(id=rule_id).first()


def _is_wanted(locked: _DueDelivery, sender: AlertRule | SavedReport) -> bool:
    if isinstance(sender, SavedReport) or locked.is_test:
        return True
    return sender.is_enabled and (sender.send_resolved or not locked.is_resolution)


def _end(delivery_id: int, state: AlertDeliveryState) -> None:
    AlertDelivery.objects.filter(id=delivery_id).update(state=Value(str(state)), answered_at=Now())


def _composed(locked: _DueDelivery, rule: AlertRule) -> str | None:
    """Return what is to be sent. Of what was held only what is still so; None where that is nothing."""
    if locked.is_resolution:
        type_, alerts = NoticeType.RESOLVED, fetch(ReportedAlert, _RESOLVED, [locked.id])
    else:
        type_ = NoticeType.TEST if locked.is_test else NoticeType.OPENED
        opened = fetch(ReportedAlert, _ALERTS, [locked.id])
        alerts = [one for one in opened if one.resolved_at is None or not locked.is_held]
    if not alerts and not locked.is_test:
        return None
    return body_of(
        alerts,
        type_=type_,
        rule=rule.name,
        installation=settings.ENVIRONMENT_NAME,
        base=settings.PUBLIC_URL,
        at=locked.at,
    )


def _send_all(tries: Sequence[_Try], post: HttpPost) -> None:
    """Make the tries at the same time and write each answer down when it is there."""
    answers: SimpleQueue[tuple[_Try, ChannelAnswer]] = SimpleQueue()
    for one in tries:
        # What hangs may not keep this worker from its other work; the thread ends with the process.
        threading.Thread(target=_send, args=(one, post, answers), name="alert", daemon=True).start()
    until = time.monotonic() + SECONDS_A_TRY
    left = {one.delivery_id: one for one in tries}
    while left:
        try:
            one, answer = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        del left[one.delivery_id]
        _settle(one, answer)
    for one in left.values():
        _settle(one, ChannelAnswer(is_taken=False, text=f"There was no answer within {SECONDS_A_TRY:.0f} s."))


def _send(one: _Try, post: HttpPost, answers: "SimpleQueue[tuple[_Try, ChannelAnswer]]") -> None:
    try:
        answer = CHANNELS[one.channel].send(one.notice, post)
    except Exception as error:  # whatever it is, it is this try's answer
        answer = ChannelAnswer(is_taken=False, text=error_text(error))
    answers.put((one, answer))


def _settle(one: _Try, answer: ChannelAnswer) -> None:
    is_last = one.is_test or answer.is_final or one.number >= MAX_TRIES
    state = AlertDeliveryState.WAITING
    if answer.is_taken or is_last:
        state = AlertDeliveryState.SENT if answer.is_taken else AlertDeliveryState.FAILED
    entry = {"at": one.notice.at.isoformat(), "is_taken": answer.is_taken, "text": answer.text.replace("\x00", "")}
    values: dict[str, Any] = {
        "state": str(state),
        "entry": json.dumps([entry]),
        "id": one.delivery_id,
        "tries": one.number,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT id FROM alert_rule WHERE id = %s FOR NO KEY UPDATE", [one.rule_id])
        cursor.execute(_ANSWERED, values)
        if cursor.rowcount:
            cursor.execute(_FAILING, [answer.is_taken, one.rule_id])
