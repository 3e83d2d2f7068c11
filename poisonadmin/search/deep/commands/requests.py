"""Searches are asked for, cancelled, and removed after a day."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.locks import hold
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.runs.commands import worker_runs
from poisonadmin.search.deep.domain.states import SearchState
from poisonadmin.search.deep.queries.searches import get_search, latest_search
from poisonadmin.search.deep.queries.terms import clauses_of, plain_of
from poisonadmin.search.domain.filters import parse_filter, require_values
from poisonadmin.search.queries.live import compile_filter

KEPT_HOURS = 24
# Of one account: each may read everything that is stored, and keeps up to `MAX_HITS` rows.
MAX_RUNNING = 5
MAX_KEPT = 100

_REQUEST = """
INSERT INTO search (filter, state, requester, requested_by, patterns, reads_payloads, live_above, read, total, hits,
                    archived_hits, is_capped, outside_archive, requested_at, expires_at)
SELECT %(filter)s, 'running', %(requester)s, %(by)s, %(patterns)s, %(reads_payloads)s,
       coalesce((SELECT max(id) FROM message), 0), 0, 0, 0, 0, false, '[]', now(), now() + %(kept)s * interval '1 h'
RETURNING id
"""
_CANCEL = "UPDATE search SET state = 'cancelled', ended_at = now() WHERE id = %s AND state = 'running' RETURNING job_id"
_KEPT = """
SELECT count(*) FILTER (WHERE state = 'running'), count(*) FROM search WHERE requester = %s AND expires_at > now()
"""
_EXPIRED = """
DELETE FROM search WHERE id IN (
    SELECT id FROM search WHERE state <> 'running' AND expires_at <= now() ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
) RETURNING id
"""
_HITS = "DELETE FROM search_hit WHERE search_id = ANY(%s)"


class TooManySearches(PoisonAdminError):
    """Raised when an account has too many searches."""

    code = "too_many_searches"
    status = 429


class SearchEnded(PoisonAdminError):
    """Raised when a search is to be cancelled that is over."""

    code = "search_ended"
    status = 409


def request_search(
    message_filter: Mapping[str, Sequence[str]], *, principal: Principal, finds_former: bool = False
) -> int:
    """Have the payloads and headers searched that a filter (`GET /messages/`, and terms about payloads) leaves.

    Return the search's id. `finds_former`: an own search for the same, that runs or is known, is returned instead.
    Errors: `NotAllowed`, `InvalidFilter`, `TooManySearches`.
    """
    principal.require(Permission.READ)
    require_values(message_filter)
    parsed = parse_filter(message_filter)
    clauses_of(parsed)
    compile_filter(plain_of(parsed), principal)  # what cannot be asked is refused now
    if is_deep := parsed.is_deep:
        principal.require(Permission.READ_PAYLOAD)
    text = json.dumps({name: list(texts) for name, texts in message_filter.items()})
    with transaction.atomic(), connection.cursor() as cursor:
        hold(cursor, Lock.SEARCHES, lock_key(crc32(principal.person.encode())))
        former = latest_search(message_filter, principal=principal) if finds_former else None
        if former is not None and former.state in (SearchState.RUNNING, SearchState.COMPLETED):
            return former.id
        _require_room(principal)
        values: dict[str, Any] = {
            "filter": text,
            "requester": principal.person,
            "by": principal.name,
            "patterns": json.dumps([list(some) for some in principal.patterns]),
            "reads_payloads": is_deep,
            "kept": KEPT_HOURS,
        }
        cursor.execute(_REQUEST, values)
        search_id: int = cursor.fetchone()[0]
        audit.record(principal.name, "search.requested", "search", str(search_id), details={"filter": json.loads(text)})
    return search_id


def _require_room(principal: Principal) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, [principal.person])
        running, kept = cursor.fetchone()
    if running >= MAX_RUNNING:
        raise TooManySearches(f"{principal.name} has {running} searches that run; wait for one, or cancel one.")
    if kept >= MAX_KEPT:
        raise TooManySearches(f"{principal.name} has made {kept} searches; each is removed after {KEPT_HOURS} hours.")


def cancel_search(search_id: int, *, principal: Principal) -> None:
    """End the search; what it has found stays listed, without a selection. Others' are cancelled by administrators.

    Errors: `NotAllowed`, `NotFound`, `SearchEnded`.
    """
    found = get_search(search_id, principal=principal)
    if found.requester != principal.person and not principal.may(Permission.CONFIGURE):
        raise NotAllowed(f"Search {search_id} was asked for by {found.requested_by}.")
    with transaction.atomic():
        cancelled = fetch_values(_CANCEL, [search_id])
        if not cancelled:
            raise SearchEnded(f"Search {search_id} is over; nothing was done.")
        if cancelled[0] is not None:
            worker_runs.cancel(cancelled[0])
        audit.record(principal.name, "search.cancelled", "search", str(search_id))


def remove_expired_searches() -> int:
    """Remove the searches that ended and whose day is over; return how many."""
    removed = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_EXPIRED)
            gone = [row[0] for row in cursor.fetchall()]
            cursor.execute(_HITS, [gone])
        removed += len(gone)
        if not gone:
            return removed
