"""Asking for comparisons, and cancelling them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.db import transaction

from poisonadmin.comparisons.queries.comparisons import get_comparison
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.search.commands.selections import InvalidSelection, freeze
from poisonadmin.search.domain.filters import parse_filter, require_values
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.selections import get_selection

FAILED_AGAIN = (MemberOutcome.FAILED_SAME, MemberOutcome.FAILED_NEW, MemberOutcome.BLACKLISTED)


# `params`: `selection_id`; `against`, a filter, null for what was delivered beside; `with_payload`; `address_ids` of
# the selection. `result`: `against`, `failing_count`, `others_count`, `address_ids` and `former_address_ids` of both;
# then, of the compared messages, `failing`, `others`, `fields`, `tested`, `findings`.
COMPARISON = RunKind(
    KindName.COMPARE,
    noun="comparison",
    audited_as="comparison.{}",
    audited_object="comparison",
    first_phase="choosing messages",
    cancelled_by=Permission.DECIDE,
    max_open=3,
    kept=timedelta(days=1),
    is_personal=True,
    shares=Lock.TABLES,
)


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
    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `InvalidSelection`, `TooManyRuns`, `TooManySelections`,
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
    narrowed = Sql(
        """m.id IN (
        SELECT message_id FROM operation_result WHERE operation_id = {operation} AND outcome = ANY({outcomes}))""",
        operation=operation_id,
        outcomes=[str(one) for one in FAILED_AGAIN],
    )
    return _compare(freeze({}, narrowed=narrowed, principal=principal), None, principal)


def _compare(selection_id: int, against: Mapping[str, Sequence[str]] | None, principal: Principal) -> int:
    selection = get_selection(selection_id, principal=principal)
    if not selection.count:
        raise InvalidSelection("selection", "has no message.")
    with_payload = principal.may(Permission.READ_PAYLOAD)
    params = {
        "selection_id": selection.id,
        "against": None if against is None else {name: list(texts) for name, texts in against.items()},
        "with_payload": with_payload,
        "address_ids": list(selection.address_ids),
    }
    details = {"selection": selection.id, "with_payload": with_payload}
    return request_run(COMPARISON, params, principal=principal, details=details).id


def cancel_comparison(comparison_id: int, *, principal: Principal) -> None:
    """Cancel a comparison of one's own, or as somebody who may decide. Errors: `NotAllowed`, `NotFound`, `RunEnded`."""
    get_comparison(comparison_id, principal=principal)
    cancel_run(COMPARISON, comparison_id, principal=principal)
