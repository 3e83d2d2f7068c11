"""Asking for a search for groups that look alike: by a person, or once a day when groups have changed."""

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.domain.proposals import AlikeSearchState
from poisonadmin.groups.alike.queries.compared_groups import groups_digest
from poisonadmin.groups.alike.queries.proposals import get_search
from poisonadmin.store.models.alike_groups import AlikeSearch


class AlikeSearchOver(PoisonAdminError):
    """Raised when a search is to be cancelled that is over."""

    code = "alike_search_over"
    status = 409


def request_search(*, principal: Principal) -> int:
    """Have groups that look alike searched for; return the id of the search, of the open one where there is one.

    Errors: `NotAllowed`, for who may not merge groups.
    """
    require_merger(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        under_way = AlikeSearch.objects.filter(finished_at=None).first()
        if under_way is not None:
            return under_way.id
        made = AlikeSearch.objects.create(requested_by=principal.name)
        if principal is not SYSTEM:
            audit.record(principal.name, "alike_groups.requested", "alike_search", str(made.id))
    return made.id


def cancel_search(search_id: int, *, principal: Principal) -> None:
    """End a search that is not over; what was proposed before stays. Errors: `NotAllowed`, `NotFound`,
    `AlikeSearchOver`."""
    require_merger(principal)
    get_search(search_id, principal=principal.as_reader)
    with transaction.atomic():
        cancelled = AlikeSearch.objects.filter(id=search_id, finished_at=None).update(
            state=AlikeSearchState.CANCELLED, finished_at=Now(), phase=None
        )
        if not cancelled:
            raise AlikeSearchOver(f"The search {search_id} is over.")
        audit.record(principal.name, "alike_groups.cancelled", "alike_search", str(search_id))


def request_daily_search() -> None:
    """Have groups searched where nobody has since midnight (UTC), and groups have changed since the last search."""
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    if AlikeSearch.objects.filter(requested_at__gte=today).exists():
        return
    last = AlikeSearch.objects.filter(state=AlikeSearchState.DONE).order_by("-requested_at").first()
    digest = groups_digest()
    if digest and (last is None or last.groups_digest != digest):
        request_search(principal=SYSTEM)


def require_merger(principal: Principal) -> None:
    """Raise NotAllowed for who may not merge groups: who may not decide, or only on some addresses."""
    principal.require(Permission.DECIDE)
    if not principal.sees_everything:
        raise NotAllowed(f"Groups that look alike concern every address, and {principal.name} is limited to some.")
