"""The notice that a report of a saved one is ready: a link and the checksum, and no rows.

It is made with the report; the outbox of alerts (alerts/commands/send.py) sends it until it is taken.
"""

import json
from typing import Any

from django.conf import settings
from django.urls import reverse

from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.notices import NoticeType
from poisonadmin.store.models.alert import AlertDelivery
from poisonadmin.store.models.report import RequestedReport


def note_ready(report_id: int) -> None:
    """Have others told that a report is ready, where a saved one says so. Call in the transaction that ends it."""
    row = RequestedReport.objects.select_related("saved").get(id=report_id)
    if row.saved is None or row.saved.channel is None:
        return
    AlertDelivery.objects.create(saved=row.saved, webhook_id=new_webhook_id(), body=_body(row))


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
