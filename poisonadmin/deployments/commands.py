"""Writes down deployments that are reported, and versions that consumers state themselves."""

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import OutOfScope, Permission, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.deployments.domain.consumers import InvalidDeployment, SeenIn, checked_consumer, checked_version
from poisonadmin.deployments.queries import consumer_is_seen
from poisonadmin.store.models.deployment import Deployment

# Clocks differ a little; what is to come is no deployment yet.
MOST_AHEAD = timedelta(minutes=1)
# A heartbeat comes every five seconds: most of them say nothing new.
_SEE = """
INSERT INTO seen_version AS known (seen_in, consumer, version) VALUES (%(seen_in)s, %(consumer)s, %(version)s)
ON CONFLICT (seen_in, consumer, version) DO UPDATE SET last_at = now()
WHERE known.last_at < now() - interval '10 s'
"""


def report_deployment(
    consumer: str, version: str, *, principal: Principal, at: datetime | None = None
) -> tuple[Deployment, bool]:
    """Write down that a version of a consumer is in use since `at`, or now; return it, and whether it is new.

    The same report changes nothing: of one consumer, version and time; without a time, of the version that was reported
    last.
    Errors: `NotAllowed`, `InvalidDeployment`, `OutOfScope`.
    """
    principal.require_any(Permission.INGEST, Permission.CONFIGURE)
    consumer, version = checked_consumer(consumer), checked_version(version)
    if not consumer_is_seen(consumer, principal):
        raise OutOfScope("consumer", f"consumer {consumer}")
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # of two equal reports at once, the second finds the first
        now: datetime = fetch_values("SELECT clock_timestamp()")[0]
        if at is not None and at > now + MOST_AHEAD:
            raise InvalidDeployment("at", "must not be in the future.")
        reported = Deployment.objects.filter(consumer=consumer)
        found = reported.order_by("at", "id").last() if at is None else reported.filter(version=version, at=at).first()
        if found is not None and found.version == version:
            return found, False
        made = Deployment.objects.create(consumer=consumer, version=version, at=at or now, reported_by=principal.name)
        made.refresh_from_db()
        details = {"version": version, "at": made.at.isoformat()}
        audit.record(principal.name, "deployment.reported", "deployment", consumer, details=details)
    return made, True


def see_version(cursor: CursorWrapper, seen_in: SeenIn, consumer: str, version: str) -> None:
    """Note that a consumer has stated its version just now."""
    cursor.execute(_SEE, {"seen_in": str(seen_in), "consumer": consumer, "version": version})
