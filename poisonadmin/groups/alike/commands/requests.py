"""Requests for a search for groups that look alike: by a person, or once a day when groups have changed."""

from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.queries.compared_groups import groups_digest, searched_digest
from poisonadmin.groups.alike.queries.proposals import get_search
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import latest_run

# No `params`. `result`: `groups`, `left_out`, `proposals` (AlikeSearchResult), and `groups_digest`, of the groups that
# there were. Searches stay for 30 days, the last that has succeeded for ever (system/commands/housekeeping.py).
ALIKE_GROUPS = RunKind(
    KindName.ALIKE_GROUPS,
    noun="search for alike groups",
    audited_as="alike_groups.{}",
    audited_object="alike_search",
    first_phase="comparing failure groups",
    cancelled_by=Permission.DECIDE,
    shares=Lock.TABLES,
)


def request_search(*, principal: Principal) -> int:
    """Have groups that look alike searched for; return the id of the search, of the open one where there is one.

    Errors: `NotAllowed`, for who may not merge groups.
    """
    require_merger(principal)
    return request_run(ALIKE_GROUPS, {}, principal=principal, reuse={}, is_audited=principal is not SYSTEM).id


def cancel_search(search_id: int, *, principal: Principal) -> None:
    """Cancel a search that has not ended; the proposals of before stay.

    Errors: `NotAllowed`, `NotFound`, `RunEnded`.
    """
    require_merger(principal)
    get_search(search_id, principal=principal.as_reader)
    cancel_run(ALIKE_GROUPS, search_id, principal=principal)


def request_daily_search() -> None:
    """Have groups searched where nobody has since midnight (UTC), and groups have changed since the last search."""
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    last = latest_run(KindName.ALIKE_GROUPS, {})
    if last is not None and last.created_at >= today:
        return
    digest = groups_digest()
    if digest and digest != searched_digest():
        request_search(principal=SYSTEM)


def require_merger(principal: Principal) -> None:
    """Raise NotAllowed for who may not merge groups: who may not decide, or only on some addresses."""
    principal.require(Permission.DECIDE)
    if not principal.sees_everything:
        raise NotAllowed(f"Groups that look alike concern every address, and {principal.name} is limited to some.")
