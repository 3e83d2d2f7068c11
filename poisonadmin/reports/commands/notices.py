"""The notice that a report of a saved one is ready: a link and the checksum, and no rows.

It is made with the report; the outbox of alerts (alerts/commands/send.py) sends it until it is taken.
"""

import json

from django.conf import settings
from django.urls import reverse

from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.notices import NoticeType
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import StoredRun, find_run
from poisonadmin.store.models.alert import AlertDelivery
from poisonadmin.store.models.report import SavedReport


def note_ready(report_id: int) -> None:
    """Have others told that a report is ready, where a saved one says so. Call in the transaction that ends it."""
    run = find_run(KindName.REPORT, report_id)
    assert run is not None
    saved = SavedReport.objects.filter(id=run.params["saved_id"], channel__isnull=False).first()
    if saved is not None:
        AlertDelivery.objects.create(saved=saved, webhook_id=new_webhook_id(), body=_body(saved, run))


def _body(saved: SavedReport, run: StoredRun) -> str:
    """Return the JSON that is sent, in the form of alerts: a receiver and a mail show it as they show those."""
    assert run.result is not None
    rows, sha256 = run.result["rows"], run.result["sha256"]
    at = None if run.ended_at is None else run.ended_at.isoformat(timespec="seconds")
    shown = {
        "id": str(run.id),
        "kind": "report",
        "title": one_line(f"Report {saved.name}: {rows:,} rows, SHA-256 {sha256}", 300),
        "url": f"{settings.PUBLIC_URL}{reverse('reports-one', args=[run.id])}",
        "facts": {
            "report": str(run.id),
            "kind": run.params["asked"]["kind"],
            "format": run.params["asked"]["format"],
            "rows": rows,
            "sha256": sha256,
            "expires_at": run.result["file_until"],
        },
        "opened_at": at,
        "resolved_at": None,
    }
    document = {
        "type": str(NoticeType.REPORT),
        "timestamp": at,
        "data": {"rule": saved.name, "installation": settings.ENVIRONMENT_NAME, "alerts": [shown], "more": 0},
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
