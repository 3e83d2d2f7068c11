"""Notices: the body that all channels share, its signature, and the waits before another try.

Source of the signature: the specification of Standard Webhooks, version 1.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

# An alert beyond these is counted only.
LISTED_ALERTS = 50
TEST_TITLE = "This is a test alert"
# Seconds between one try and the next: a day in all.
WAITS_SECONDS = (10, 60, 300, 1800, 7200, 18_000, 28_800, 28_800)
MAX_TRIES = len(WAITS_SECONDS) + 1
PREFIX = "whsec_"
# The specification asks for 24 to 64.
SECRET_BYTES = 32


def secret_text(random_bytes: bytes) -> str:
    """Return a secret as its owner is given it.

    >>> secret_text(b"0123456789abcdef01234567")
    'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3'
    """
    return PREFIX + base64.b64encode(random_bytes).decode()


def signature(secrets: Sequence[str], *, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: a signature by each secret, so that one may replace another."""
    content = b".".join((webhook_id.encode(), str(timestamp).encode(), body))
    made = (hmac.new(base64.b64decode(text.removeprefix(PREFIX)), content, hashlib.sha256) for text in secrets)
    return " ".join(f"v1,{base64.b64encode(one.digest()).decode()}" for one in made)


class NoticeType(StrEnum):
    """The event that a notice reports: alerts began or are over. REPORT: a saved report is ready."""

    OPENED = "alerts.opened"
    RESOLVED = "alerts.resolved"
    TEST = "alerts.test"
    REPORT = "report.ready"


@dataclass(frozen=True)
class ReportedAlert:
    """An alert as it is sent. `resolved_at`: None while it is open."""

    id: int
    kind: str
    title: str
    path: str
    facts: Mapping[str, Any]
    opened_at: datetime
    resolved_at: datetime | None


def wait_seconds(tries: int) -> int:
    """Return how long to wait after so many tries, at least one.

    >>> wait_seconds(1), wait_seconds(99), sum(WAITS_SECONDS) < 24 * 3600
    (10, 28800, True)
    """
    return WAITS_SECONDS[min(tries, len(WAITS_SECONDS)) - 1]


def body_of(
    alerts: Sequence[ReportedAlert], *, type_: NoticeType, rule: str, installation: str, base: str, at: datetime
) -> str:
    """Return the JSON that is sent: `{type, timestamp, data}`, as Standard Webhooks has it.

    `base`: the dashboard's address, empty where none is known. `data.more`: how many alerts are not listed.
    """
    shown = [_shown(one, base) for one in alerts[:LISTED_ALERTS]]
    if type_ is NoticeType.TEST:
        shown = [{"id": None, "kind": "test", "title": TEST_TITLE, "opened_at": _time(at), "resolved_at": None}]
    document = {
        "type": str(type_),
        "timestamp": _time(at),
        "data": {
            "rule": rule,
            "installation": installation,
            "alerts": shown,
            "more": max(0, len(alerts) - LISTED_ALERTS),
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _shown(alert: ReportedAlert, base: str) -> dict[str, Any]:
    return {
        "id": str(alert.id),
        "kind": alert.kind,
        "title": alert.title,
        "url": f"{base}{alert.path}",
        "facts": dict(alert.facts),
        "opened_at": _time(alert.opened_at),
        "resolved_at": None if alert.resolved_at is None else _time(alert.resolved_at),
    }


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
