"""The notice that a report of a saved one is ready: made with the report, and sent until it is taken.

It holds a link and the checksum, and no rows. The time of the next try is written before a try begins, so one that
dies with its worker is made again, with the same id and content.
"""

import json
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.urls import reverse

from poisonadmin.alerts.channels.contract import ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.kinds import AlertDeliveryState, ChannelKind
from poisonadmin.alerts.domain.notices import MAX_TRIES, NoticeType, wait_seconds
from poisonadmin.core.domain.errors import error_text
from poisonadmin.core.queries.rows import fetch
from poisonadmin.store.models.report import ReportDelivery, RequestedReport

SECONDS_A_TICK = 10.0

_BEGIN = """
UPDATE report_delivery d SET tries = tries + 1, due_at = now() + %s * interval '1 s'
FROM saved_report s
WHERE s.id = d.saved_id AND d.id = (
    SELECT id FROM report_delivery WHERE state = 'waiting' AND due_at <= clock_timestamp() ORDER BY due_at, id LIMIT 1
    FOR UPDATE SKIP LOCKED)
RETURNING d.id, d.webhook_id, d.body, d.tries, s.channel, s.send_to, s.secrets, now() AS at
"""


@dataclass(frozen=True)
class _Due:
    id: int
    webhook_id: str
    body: str
    tries: int
    channel: str | None
    send_to: list[str]
    secrets: list[str]
    at: datetime


def note_ready(report_id: int) -> None:
    """Have others told that a report is ready, where a saved one says so. Call in the transaction that ends it."""
    row = RequestedReport.objects.select_related("saved").get(id=report_id)
    if row.saved is None or row.saved.channel is None:
        return
    ReportDelivery.objects.create(report=row, saved=row.saved, webhook_id=new_webhook_id(), body=_body(row))


def _body(row: RequestedReport) -> str:
    """Return the JSON that is sent, in the form of alerts: a receiver and a mail show it as they show those."""
    assert row.saved is not None
    facts: dict[str, Any] = {
        "report": str(row.id),
        "kind": row.kind,
        "format": row.asked["format"],
        "rows": row.rows,
        "sha256": row.sha256,
        "expires_at": None if row.expires_at is None else row.expires_at.isoformat(timespec="seconds"),
    }
    at = None if row.ended_at is None else row.ended_at.isoformat(timespec="seconds")
    title = f"Report {row.saved.name}: {row.rows:,} rows, SHA-256 {row.sha256}"
    shown = {
        "id": str(row.id),
        "kind": "report",
        "title": one_line(title, 300),
        "url": f"{settings.PUBLIC_URL}{reverse('reports-one', args=[row.id])}",
        "facts": facts,
        "opened_at": at,
        "resolved_at": None,
    }
    document = {
        "type": str(NoticeType.REPORT),
        "timestamp": at,
        "data": {"rule": row.saved.name, "installation": settings.ENVIRONMENT_NAME, "alerts": [shown], "more": 0},
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def send_notices(post: HttpPost, *, seconds: float = SECONDS_A_TICK) -> int:
    """Send what is due, one after the other, for about `seconds`; return how many tries were made."""
    until, tries = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        found = fetch(_Due, _BEGIN, [wait_seconds(tries + 1)])
        if not found:
            break
        tries += 1
        _settle(found[0], _try(found[0], post))
    return tries


def _try(one: _Due, post: HttpPost) -> ChannelAnswer:
    if one.channel is None:
        return ChannelAnswer(is_taken=False, text="It is sent no more.", is_final=True)
    try:
        return CHANNELS[ChannelKind(one.channel)].send(
            Notice(one.webhook_id, one.body, one.send_to, one.secrets, one.at), post
        )
    except Exception as error:  # whatever it is, it is this try's answer
        return ChannelAnswer(is_taken=False, text=error_text(error))


def _settle(one: _Due, answer: ChannelAnswer) -> None:
    state = AlertDeliveryState.SENT if answer.is_taken else AlertDeliveryState.WAITING
    if not answer.is_taken and (answer.is_final or one.tries >= MAX_TRIES):
        state = AlertDeliveryState.FAILED
    changed = {"state": str(state), "answer": answer.text.replace("\x00", "")[:1000]}
    if state is AlertDeliveryState.WAITING:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE report_delivery SET due_at = now() + %s * interval '1 s' WHERE id = %s",
                [wait_seconds(one.tries), one.id],
            )
    ReportDelivery.objects.filter(id=one.id, state="waiting", tries=one.tries).update(**changed)
