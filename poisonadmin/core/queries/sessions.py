"""Sessions of the dashboard, account by account."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models.functions import Now

from poisonadmin.core.domain.session_keys import ACTIVE_AT, BEGAN_AT, BROWSER, NETWORK


@dataclass(frozen=True)
class SessionRow:
    """A session of the dashboard. `network`: where it began; `is_own`: that of the request."""

    key: str
    began_at: datetime | None
    active_at: datetime | None
    expires_at: datetime
    network: str | None
    browser: str
    is_own: bool


def sessions_of(account_id: int, *, own_key: str | None = None) -> list[SessionRow]:
    """Return the sessions of an account that are not over, the latest first. `own_key`: that of the request."""
    rows = [_session(one, data, own_key) for one, data in stored_sessions(account_id)]
    return sorted(rows, key=lambda row: row.active_at or row.expires_at, reverse=True)


def stored_sessions(account_id: int) -> Sequence[tuple[Session, dict[str, Any]]]:
    """Return the rows of an account's sessions with what they hold. All sessions are read: a row names no account."""
    live = Session.objects.filter(expire_date__gt=Now())
    held = [(one, one.get_decoded()) for one in live.iterator()]
    return [(one, data) for one, data in held if data.get(SESSION_KEY) == str(account_id)]


def public_key(session_key: str) -> str:
    """Return the name of a session that others may see: its key itself would let them in."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:16]


def _session(one: Session, data: dict[str, Any], own_key: str | None) -> SessionRow:
    return SessionRow(
        key=public_key(one.session_key),
        began_at=_time(data.get(BEGAN_AT)),
        active_at=_time(data.get(ACTIVE_AT)),
        expires_at=one.expire_date,
        network=data.get(NETWORK),
        browser=data.get(BROWSER, ""),
        is_own=one.session_key == own_key,
    )


def _time(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
