"""Heartbeats of consumers that run the guard."""

from dataclasses import dataclass

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError


class ConsumerNameTaken(PoisonAdminError):
    """Raised when a consumer of a source out of the caller's scope has this name."""

    code = "consumer_name_taken"
    status = 409


@dataclass(frozen=True)
class Heartbeat:
    """A consumer's heartbeat. `bookmark`: what it is handling; `ended`: it has stopped on purpose."""

    name: str
    source: str
    version: str | None = None
    host: str = ""
    pid: int = 0
    bookmark: str | None = None
    ended: bool = False


_HELD = "SELECT source FROM consumer WHERE name = %s"
_BEAT = """
INSERT INTO consumer AS known (name, source, version, host, pid, bookmark, ended_at, reported_by)
VALUES (%(name)s, %(source)s, %(version)s, %(host)s, %(pid)s, %(bookmark)s, CASE WHEN %(ended)s THEN now() END, %(by)s)
ON CONFLICT (name) DO UPDATE SET
    source = excluded.source, version = excluded.version, host = excluded.host, pid = excluded.pid,
    bookmark = excluded.bookmark, heartbeat_at = now(), ended_at = excluded.ended_at,
    reported_by = excluded.reported_by,
    -- Another process under the same name is a new start of that consumer.
    started_at = CASE WHEN known.pid = excluded.pid AND known.host = excluded.host AND known.ended_at IS NULL
                      THEN known.started_at ELSE now() END
"""


def record_heartbeat(beat: Heartbeat, *, principal: Principal) -> None:
    """Note that the consumer lives, or that it has ended.

    Errors: `NotAllowed`, `NotFound` (out of scope), `ConsumerNameTaken`.
    """
    principal.require(Permission.INGEST)
    if not principal.sees(beat.source):
        raise NotFound(f"There is no poison source {beat.source}.")
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [beat.name])
        held = cursor.fetchone()
        if held and not principal.sees(held[0]):
            raise ConsumerNameTaken(f"There is a consumer {beat.name} of another source already.")
        cursor.execute(_BEAT, vars(beat) | {"by": principal.name})
