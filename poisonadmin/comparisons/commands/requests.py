"""Asking for comparisons, and cancelling them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.comparisons.domain.comparison import ComparisonState
from poisonadmin.comparisons.queries.comparisons import get_comparison
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.messages.domain.member_outcomes import MemberOutcome
from poisonadmin.search.commands.selections import InvalidSelection, freeze
from poisonadmin.search.domain.filters import parse_filter, require_values
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.comparison import Comparison

KEPT_HOURS = 24
# Of one account, that are not over.
MAX_OPEN = 3
FAILED_AGAIN = (MemberOutcome.FAILED_SAME, MemberOutcome.FAILED_NEW, MemberOutcome.BLACKLISTED)


class TooManyComparisons(PoisonAdminError):
    """Raised when an account has several comparisons that are not over."""

    code = "too_many_comparisons"
    status = 429


class ComparisonOver(PoisonAdminError):
    """Raised when a comparison is to be cancelled that is over."""

    code = "comparison_over"
    status = 409


def request_comparison(
    *,
    selection_id: int | None = None,
    message_filter: Mapping[str, Sequence[str]] | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
    principal: Principal,
) -> int:
    """Have a selection, or what a filter finds now, compared with others; return the comparison's id.

    `against`: a filter (`GET /messages/`); by default what was delivered at the same addresses in the same time. Values
    in payloads are compared where the account may read payloads.
    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `InvalidSelection`, `TooManyComparisons`, `TooManySelections`,
    `QueryTooExpensive`.
    """
    principal.require(Permission.READ)
    if against is not None:
        require_values(against)
        compile_filter(parse_filter(against), principal)
    if selection_id is not None:
        return _compare(selection_id, against, principal)
    with transaction.atomic():
        return _compare(freeze(message_filter, principal=principal), against, principal)


def compare_ids(ids: Sequence[int], *, principal: Principal) -> int:
    """Have these messages compared, as far as they are in scope; return the comparison's id. Errors as above."""
    return _compare(freeze(ids=ids, principal=principal), None, principal)


def compare_failures_of(operation_id: int, *, principal: Principal) -> int:
    """Have the messages compared that failed again in an operation; return the comparison's id. Errors as above."""
    get_operation(operation_id, principal=principal)
    failed_again = "m.id IN (SELECT message_id FROM operation_result WHERE operation_id = %s AND outcome = ANY(%s))"
    narrowed = failed_again, [operation_id, [str(one) for one in FAILED_AGAIN]]
    return _compare(freeze({}, narrowed=narrowed, principal=principal), None, principal)


def _compare(selection_id: int, against: Mapping[str, Sequence[str]] | None, principal: Principal) -> int:
    selection = get_selection(selection_id, principal=principal)
    if not selection.count:
        raise InvalidSelection("selection", "has no message.")
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        waiting = Comparison.objects.filter(account=principal.person, finished_at=None).count()
        if waiting >= MAX_OPEN:
            raise TooManyComparisons(
                f"{principal.name} has {waiting} comparisons that are not over. Wait for one, or cancel it."
            )
        made = Comparison.objects.create(
            selection_id=selection.id,
            against=None if against is None else {name: list(texts) for name, texts in against.items()},
            is_against_delivered=against is None,
            with_payload=principal.may(Permission.READ_PAYLOAD),
            account=principal.person,
            requested_by=principal.name,
            patterns=[list(some) for some in principal.patterns],
            address_ids=selection.address_ids,
            expires_at=Now() + timedelta(hours=KEPT_HOURS),
        )
        details = {"selection": selection.id, "with_payload": made.with_payload}
        audit.record(principal.name, "comparison.requested", "comparison", str(made.id), details=details)
    return made.id


def cancel_comparison(comparison_id: int, *, principal: Principal) -> None:
    """End a comparison of one's own, or as somebody who may decide. Errors: `NotAllowed`, `NotFound`,
    `ComparisonOver`."""
    get_comparison(comparison_id, principal=principal)
    if not Comparison.objects.filter(id=comparison_id, account=principal.person).exists():
        principal.require(Permission.DECIDE)
    with transaction.atomic():
        cancelled = Comparison.objects.filter(id=comparison_id, finished_at=None).update(
            state=ComparisonState.CANCELLED, finished_at=Now(), phase=None
        )
        if not cancelled:
            raise ComparisonOver(f"The comparison {comparison_id} is over.")
        audit.record(principal.name, "comparison.cancelled", "comparison", str(comparison_id))
