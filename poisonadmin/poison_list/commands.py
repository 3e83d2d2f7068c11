"""The poison list: bookmarks that consumers report, and that every consumer of the source then skips.

A report counts; at its limit it lists, and the message goes along. A release, or approving the message, undoes it; each
does the other as well. Heartbeats tell which consumers live.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.deployments.commands import see_version
from poisonadmin.deployments.domain.consumers import SeenIn
from poisonadmin.intake.commands.accept import store_listed
from poisonadmin.intake.domain.envelope import MessageEnvelope
from poisonadmin.messages.commands import poison_entries as entries
from poisonadmin.messages.commands.poison_entries import CountedReport, ListingLimits
from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.queries import policy_index

FATAL = "Fatal error."
DEFAULT_CRASH_LIMIT = 2
DEFAULT_FAILURE_LIMIT = 1


@dataclass(frozen=True)
class Report:
    """A consumer's report that it could not handle a bookmark: an exception, or with `fatal` its own death.

    `crash_limit`: at which count of crashes the bookmark is listed; None: as the policy of the source says, else 2.
    `envelope`: the message itself, its address the source, its dead letter the failure; None where it was not sent.
    """

    source: str
    bookmark: str
    why: str
    fatal: bool = False
    crash_limit: int | None = None
    envelope: MessageEnvelope | None = None
    consumer: str | None = None


_OF_MESSAGES = """
SELECT message.id, address.name, coalesce(envelope.bookmark, envelope.message_id)
FROM message JOIN envelope USING (id) JOIN address ON address.id = message.address_id WHERE message.id = ANY(%s)
"""


def report(reported: Report, *, principal: Principal) -> int:
    """Count a consumer's report and list the bookmark when the limit is reached; return the entry's id.

    When it is listed, the message goes along: one that waits on the address of that name becomes NDLV `listed`; one
    that is not stored there is stored so, when the report brings it.
    Errors: `NotAllowed`, `NotFound` (out of scope), `InvalidAddress` (a payload for no address).
    Source: SEMANTICS AMPS-3, AMPS-8, AMPS-13, ruling R7.
    """
    principal.require(Permission.INGEST)
    if not principal.sees(reported.source):
        raise NotFound(f"There is no poison source {reported.source}.")
    by = f"{reported.consumer} ({principal.name})" if reported.consumer else principal.name
    return retried(lambda: _report(reported, by[:255]))


def _report(reported: Report, by: str) -> int:
    limits = _limits_at(reported.source, reported.crash_limit)
    with transaction.atomic(), connection.cursor() as cursor:
        messages = messages_of(cursor, reported.source, reported.bookmark)
        expected = entries.would_list(cursor, reported.source, reported.bookmark, fatal=reported.fatal, limits=limits)
        if expected:
            messages = _take_along(cursor, reported, messages, by)
        counted = CountedReport(reported.source, reported.bookmark, reported.why, max(messages, default=None))
        (entry,) = entries.count(cursor, [counted], fatal=reported.fatal, limits=limits, by=by)
        if entry.is_listed and not expected:
            # Another report came in between. Messages after the list is the wrong order of locks, but it is that rare.
            messages = _take_along(cursor, reported, messages, by)
            entries.link(cursor, entry.id, max(messages, default=None))
    return entry.id


def _take_along(cursor: CursorWrapper, reported: Report, messages: Sequence[int], by: str) -> list[int]:
    """Make NDLV `listed` what waits of the messages, which are locked, or store the one that came; return their ids."""
    if messages:
        list_waiting(cursor, messages, actor=by, note=reported.why)
        return list(messages)
    if reported.envelope is None:
        return []
    stored = store_listed(cursor, reported.envelope, actor=by)
    return [stored] if stored is not None else messages_of(cursor, reported.source, reported.bookmark)


def _limits_at(source: str, crash_limit: int | None = None) -> ListingLimits:
    policy = policy_index().resolve(source).policy
    return ListingLimits(
        failures=policy.failures_to_list if policy.failures_to_list > 0 else DEFAULT_FAILURE_LIMIT,
        crashes=crash_limit or (policy.crashes_to_list if policy.crashes_to_list > 0 else DEFAULT_CRASH_LIMIT),
    )


def list_messages(
    cursor: CursorWrapper, message_ids: Sequence[int], *, why: Mapping[int, str], fatal: bool, actor: str
) -> None:
    """List the bookmarks of messages that a policy's decision puts on the list. Inside the decision's transaction.

    The source is a message's address, its bookmark the envelope's, else the producer's id (ruling R7).
    """
    if not message_ids:
        return
    cursor.execute(_OF_MESSAGES, [list(message_ids)])
    counted: dict[ListingLimits, list[CountedReport]] = {}
    for number, source, bookmark in cursor.fetchall():
        counted.setdefault(_limits_at(source), []).append(CountedReport(source, bookmark, why[number], number))
    for limits in sorted(counted):
        entries.count(cursor, counted[limits], fatal=fatal, limits=limits, by=actor, is_listed=True)


# As many as one report may set aside; a bookmark names one message, but nothing makes producers keep to that.
MAX_MESSAGES = 1_000

_BY_BOOKMARK = """
SELECT message.id FROM envelope JOIN message USING (id)
WHERE envelope.bookmark = %(bookmark)s AND message.address_id = (SELECT id FROM address WHERE name = %(source)s)
ORDER BY id DESC LIMIT %(most)s
"""
_BY_MESSAGE_ID = """
SELECT message.id FROM envelope JOIN message USING (id)
WHERE envelope.message_id = %(bookmark)s AND envelope.bookmark IS NULL
  AND message.address_id = (SELECT id FROM address WHERE name = %(source)s)
ORDER BY id DESC LIMIT %(most)s
"""
_LOCK = "SELECT FROM message WHERE id = ANY(%s) ORDER BY id FOR UPDATE"

_LIST = move(
    State.TBDL,
    Event.LISTED,
    State.NDLV,
    reason=Reason.LISTED,
    chosen="SELECT id, address_id, state, reason, group_id FROM message WHERE id = ANY(%(ids)s) AND state = 'TBDL'",
)

# What was handed back and is reported again is the same message again (ruling R7).
_LIST_AGAIN = move(
    State.DLVD,
    Event.LISTED,
    State.NDLV,
    reason=Reason.LISTED,
    chosen="""SELECT id, address_id, state, reason, group_id FROM message
              WHERE id = ANY(%(ids)s) AND state = 'DLVD' AND reason = 'handed_back'""",
)


def messages_of(cursor: CursorWrapper, source: str, bookmark: str) -> list[int]:
    """Lock and return the messages that `bookmark` names on the address `source`, newest first.

    Those that carry it as their bookmark; else those without one whose producer's id it is.
    """
    for query in (_BY_BOOKMARK, _BY_MESSAGE_ID):
        cursor.execute(query, {"source": source, "bookmark": bookmark, "most": MAX_MESSAGES})
        if found := [row[0] for row in cursor.fetchall()]:
            cursor.execute(_LOCK, [found])
            return found
    return []


def list_waiting(cursor: CursorWrapper, ids: Sequence[int], *, actor: str, note: str) -> None:
    """Move those of the messages, all locked, that wait, or were handed back to their consumers, to NDLV `listed`."""
    for statement in (_LIST, _LIST_AGAIN):
        cursor.execute(statement, {"ids": list(ids), "actor": actor, "note": note})


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
        if beat.version is not None and not beat.ended:
            see_version(cursor, SeenIn.HEARTBEAT, beat.source, beat.version)
