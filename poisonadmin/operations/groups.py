"""Failure groups: made and moved forward by the writers of failures."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.backends.utils import CursorWrapper

from poisonadmin.domain.failures import FINGERPRINT_VERSION


@dataclass(frozen=True)
class Seen:
    """One failure, as far as its group is concerned."""

    fingerprint: str
    title: str
    error_class: str
    message_id: int
    at: datetime


# Groups are locked in the order of their fingerprints, so that two settles never wait for each other.
_UPSERT = """
INSERT INTO failure_group (fingerprint, version, title, error_class, sample_message_id, first_at, last_at, failures)
SELECT fingerprint, %(version)s, min(title), min(error_class), min(message_id), min(at), max(at), count(*)
FROM unnest(%(fingerprints)s::text[], %(titles)s::text[], %(classes)s::text[], %(messages)s::bigint[],
            %(ats)s::timestamptz[]) AS seen(fingerprint, title, error_class, message_id, at)
GROUP BY fingerprint ORDER BY fingerprint
ON CONFLICT (fingerprint) DO UPDATE SET
    first_at = LEAST(failure_group.first_at, excluded.first_at),
    last_at = GREATEST(failure_group.last_at, excluded.last_at),
    failures = failure_group.failures + excluded.failures
RETURNING fingerprint, id
"""


def ensure(cursor: CursorWrapper, failures: Iterable[Seen]) -> dict[str, int]:
    """Count the failures into their groups, made where missing; return fingerprint -> group id."""
    seen = list(failures)
    if not seen:
        return {}
    cursor.execute(
        _UPSERT,
        {
            "version": FINGERPRINT_VERSION,
            "fingerprints": [one.fingerprint for one in seen],
            "titles": [one.title[:300] for one in seen],
            "classes": [one.error_class[:255] for one in seen],
            "messages": [one.message_id for one in seen],
            "ats": [one.at for one in seen],
        },
    )
    return dict(cursor.fetchall())
