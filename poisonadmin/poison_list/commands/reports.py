"""The poison list: bookmarks that consumers report, and that every consumer of the source then skips.

A report counts; at its limit it lists, and the message goes along. A release, or approving the message, undoes it; each
does the other as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.intake.domain.envelope import MessageEnvelope
from poisonadmin.messages.commands import poison_entries as entries
from poisonadmin.messages.commands.poison_entries import CountedReport, ListingLimits
from poisonadmin.poison_list.commands.stored_messages import list_waiting, messages_of, store_listed
from poisonadmin.policies.queries.index import policy_index

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


def report(told: Report, *, principal: Principal) -> int:
    """Count a consumer's report and list the bookmark when the limit is reached; return the entry's id.

    When it is listed, the message goes along: one that waits on the address of that name becomes NDLV `listed`; one
    that is not stored there is stored so, when the report brings it.
    Errors: `NotAllowed`, `NotFound` (out of scope), `InvalidAddress` (a payload for no address).
    Source: SEMANTICS AMPS-3, AMPS-8, AMPS-13, ruling R7.
    """
    principal.require(Permission.INGEST)
    if not principal.sees(told.source):
        raise NotFound(f"There is no poison source {told.source}.")
    by = f"{told.consumer} ({principal.name})" if told.consumer else principal.name
    return retried(lambda: _report(told, by[:255]))


def _report(told: Report, by: str) -> int:
    limits = _limits_at(told.source, told.crash_limit)
    with transaction.atomic(), connection.cursor() as cursor:
        messages = messages_of(cursor, told.source, told.bookmark)
        expected = entries.would_list(cursor, told.source, told.bookmark, fatal=told.fatal, limits=limits)
        if expected:
            messages = _take_along(cursor, told, messages, by)
        counted = CountedReport(told.source, told.bookmark, told.why, max(messages, default=None))
        (entry,) = entries.count(cursor, [counted], fatal=told.fatal, limits=limits, by=by)
        if entry.is_listed and not expected:
            # Another report came in between. Messages after the list is the wrong order of locks, but it is that rare.
            messages = _take_along(cursor, told, messages, by)
            entries.link(cursor, entry.id, max(messages, default=None))
    return entry.id


def _take_along(cursor: CursorWrapper, told: Report, messages: Sequence[int], by: str) -> list[int]:
    """Make NDLV `listed` what waits of the messages, which are locked, or store the one that came; return their ids."""
    if messages:
        list_waiting(cursor, messages, actor=by, note=told.why)
        return list(messages)
    if told.envelope is None:
        return []
    stored = store_listed(cursor, told.envelope, actor=by)
    return [stored] if stored is not None else messages_of(cursor, told.source, told.bookmark)


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
