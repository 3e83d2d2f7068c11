"""Requests for searches, their cancellation, and the removal of the hits of those that have expired."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind, RunState
from poisonadmin.search.deep.queries import clauses_of, get_search, latest_search, plain_of
from poisonadmin.search.domain.filters import fields_of, parse_filter, require_values
from poisonadmin.search.queries.live import compile_filter

# `params`: `filter`, parameters of `GET /messages/` with terms that no list takes; `reads_payloads`; `newest`, the id
# that no message is above. `position`: live messages above `live_above` have been read, from the newest to the oldest,
# then the archive's files up to the id `file_above`; `wave`, the number of messages to read next. `done` of `total`:
# ids of live messages, and archived rows. `result`: `hits`, of which `archived_hits` are archived; `is_capped`: there
# may be more; `outside_archive`, words that the archive cannot be asked about, so that it was left out; `first_hit_at`;
# `selection`. What is found stands in `search_hit`. An account may read everything that is stored, and keeps up to
# `MAX_HITS` rows of each search.
SEARCH = RunKind(
    KindName.SEARCH,
    noun="search",
    audited_as="search.{}",
    audited_object="search",
    first_phase="reading payloads and headers",
    cancelled_by=Permission.CONFIGURE,
    max_open=5,
    max_kept=100,
    kept=timedelta(days=1),
    is_personal=True,
    slice_seconds=3.0,
)

_NEWEST = "SELECT coalesce(max(id), 0) FROM message"
# The ids of searches are read one by one, not with every hit.
_HITS_WITHOUT_SEARCH = """
WITH RECURSIVE found AS (
    SELECT min(search_id) AS id FROM search_hit
    UNION ALL
    SELECT (SELECT min(search_id) FROM search_hit WHERE search_id > found.id) FROM found WHERE id IS NOT NULL
)
DELETE FROM search_hit WHERE search_id IN (
    SELECT id FROM found EXCEPT SELECT coalesce(former_id, id) FROM run WHERE kind = 'search' AND position IS NOT NULL)
"""


def request_search(
    message_filter: Mapping[str, Sequence[str]], *, principal: Principal, finds_former: bool = False
) -> int:
    """Have the payloads and headers searched that a filter (`GET /messages/`, and terms about payloads) leaves.

    Return the search's id. `finds_former`: an own search for the same, that runs or is known, is returned instead.
    Errors: `NotAllowed`, `InvalidFilter`, `TooManyRuns`.
    """
    principal.require(Permission.READ)
    require_values(message_filter)
    parsed = parse_filter(message_filter)
    clauses_of(parsed)
    compile_filter(plain_of(parsed), principal)  # what cannot be asked is refused now
    if is_deep := parsed.is_deep:
        principal.require(Permission.READ_PAYLOAD)
    asked = {name: list(texts) for name, texts in message_filter.items()}
    if finds_former:
        former = latest_search(asked, principal=principal)
        if former is not None and former.state == RunState.SUCCEEDED:
            return former.id
    params = {"filter": asked, "reads_payloads": is_deep, "newest": fetch_values(_NEWEST)[0]}
    reuse = {"filter": asked} if finds_former else None
    return request_run(SEARCH, params, principal=principal, reuse=reuse, details={"filter": fields_of(asked)}).id


def cancel_search(search_id: int, *, principal: Principal) -> None:
    """End the search; what it has found stays listed, without a selection. Others' are cancelled by administrators.

    Errors: `NotAllowed`, `NotFound`, `RunEnded`.
    """
    get_search(search_id, principal=principal)
    cancel_run(SEARCH, search_id, principal=principal)


def remove_hits_without_search() -> None:
    """Remove the hits of searches that are removed."""
    with connection.cursor() as cursor:
        cursor.execute(_HITS_WITHOUT_SEARCH)
