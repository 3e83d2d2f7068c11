"""Operations on selections."""

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.decisions.operations.api.selections import (
    MESSAGE,
    PREVIEW,
    OperationPreviewInput,
    created,
    previewed,
    shown,
)
from poisonadmin.decisions.operations.commands import beginning, operations
from poisonadmin.decisions.operations.commands.operations import record_export
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.awaited_version import begin_when_of
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange, OperationState
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import (
    OperationDetail,
    OperationRow,
    get_operation,
    list_operation_members,
    list_operations,
)
from poisonadmin.decisions.sign_offs.commands import sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection, list_members
from poisonadmin.web.api.attachments import csv_attachment
from poisonadmin.web.api.contract import (
    PAGE,
    FilterField,
    Identifier,
    JsonObject,
    Moment,
    OptionalReasonInput,
    Paged,
    Raw,
    ReasonInput,
    Text,
    boolean,
    choice,
    contract,
)
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

_KINDS: dict[str, Any] = {
    "action": OperationAction,
    "state": OperationState,
    "sign_off_decision": SignOffDecision | None,
}
_INTERNAL = ("walked", "changed", "requester", "patterns")
OPERATION = Shape("Operation", OperationDetail, leave_out=_INTERNAL, also={"done": int}, kinds=_KINDS)
LISTED_OPERATION = Shape("ListedOperation", OperationRow, leave_out=_INTERNAL, kinds=_KINDS)


class OperationInput(OperationPreviewInput, ReasonInput):
    """`selection`: a selection's id, or an object with the `filter` that is to be frozen.

    `params`: what the action needs to know: to redirect, `{"address": "…"}`; to patch, `json_patch` (RFC 6902), or
    `payload` for one message, and `headers` (`set`, `remove`); to assign, `owner`, `tags` (`add`, `remove`) and `note`.
    `canary`: try 1 message, then 10, then 100 before all others, and halt when they fail again. `break_glass`: begin
    without the sign-off that it may need, which takes the permission of that name and is shown on it for ever.
    `begin_when`: `{"consumer": "…", "version": "…"}`: it waits until that version or a later one is seen alive, then
    begins with a canary by itself; failing again as before on such a version halts it.
    `dry_run`: answer 200 with what it would do (`GET /selections/{id}/preview/`), and do nothing.
    """

    selection = serializers.JSONField()
    until = Moment(required=False)
    begin_when = JsonObject(required=False, allow_null=True)
    break_glass = serializers.BooleanField(required=False, default=False)
    dry_run = serializers.BooleanField(required=False, default=False)


class OperationList(ApiView):
    """`/operations/`."""

    @contract(
        Permission.READ,
        "operations",
        {200: Paged(LISTED_OPERATION)},
        query=(
            choice("state", OperationState),
            boolean("broke_glass", "Whether only those that were begun without the sign-off that they needed."),
            *PAGE,
        ),
    )
    def get(self) -> Response:
        """List operations, newest first."""
        only = {"state": self.query["state"], "broke_glass": bool(self.query["broke_glass"])}
        return self.listed(LISTED_OPERATION, list_operations, **only)

    @contract(Permission.DECIDE, "operations", {202: OPERATION, 200: PREVIEW}, body=OperationInput, acts=True)
    def post(self) -> Response:
        """Begin an operation on a selection. It goes on until every member is accounted for.

        Above the limit of a sign-off rule its state is `waiting_for_sign_off`, and nothing of it is done before another
        person has consented (`POST /operations/{id}/sign-offs/`). With `begin_when` it is `waiting_for_version` until
        that version is seen alive.
        """
        body = self.body
        selection, action = _selection_of(body["selection"]), OperationAction(body["action"])
        if body["dry_run"]:
            return self._preview(selection, action)
        operation_id = beginning.begin(
            selection,
            action,
            reason=body["reason"],
            principal=self.principal,
            until=body.get("until"),
            params=body.get("params"),
            terms=beginning.OperationTerms(
                Pace(body.get("rate_per_second"), body["canary"]),
                body["break_glass"],
                begin_when=begin_when_of(body["begin_when"]) if body.get("begin_when") else None,
                waive=body["waive"],
            ),
        )
        return created(self, OPERATION, get_operation(operation_id, principal=self.reader), 202)

    def _preview(self, selection: Any, action: OperationAction) -> Response:
        selection_id = selection if isinstance(selection, int) else freeze(selection, principal=self.reader)
        pace = Pace(self.body.get("rate_per_second"), self.body["canary"])
        return previewed(selection_id, self.body, action, pace, self.reader)


def _selection_of(given: Any) -> Any:
    if isinstance(given, str):
        field = Identifier()
        field.field_name = "selection"
        return field.to_internal_value(given)
    if isinstance(given, dict) and set(given) == {"filter"}:
        return FilterField().run_validation(given["filter"])
    raise serializers.ValidationError(
        {"selection": ["Must be a selection's id, or an object with a filter."]}, "invalid"
    )


class OperationOne(ApiView):
    """`/operations/{id}/`."""

    @contract(Permission.READ, "operations", {200: OPERATION})
    def get(self, operation_id: int) -> Response:
        """Show an operation with its ledger, whose numbers sum to `count`."""
        return shown(OPERATION, get_operation(operation_id, principal=self.principal))


class OperationMembers(ApiView):
    """`/operations/{id}/members/`."""

    @contract(
        Permission.READ,
        "operations",
        {200: Paged(MESSAGE)},
        query=(choice("outcome", MemberOutcome, "A line of the ledger."), *PAGE),
    )
    def get(self, operation_id: int) -> Response:
        """List the members behind a line of the ledger, or all of them, as they are now, oldest first."""
        operation = get_operation(operation_id, principal=self.principal)
        if self.query["outcome"] is None:
            return self.listed(MESSAGE, list_members, get_selection(operation.selection_id, principal=self.principal))
        return self.listed(MESSAGE, list_operation_members, operation, MemberOutcome(self.query["outcome"]))


class OperationLedger(ApiView):
    """`/operations/{id}/members.csv`."""

    content_negotiation_class = TakeAny

    @contract(
        Permission.EXPORT,
        "operations",
        {200: Raw("text/csv")},
        query=(
            choice("outcome", MemberOutcome, "Only the members behind this line of the ledger."),
            boolean("mark", "Whether it begins with a byte order mark, which spreadsheets want."),
        ),
    )
    def get(self, operation_id: int) -> HttpResponseBase:
        """Download the ledger as CSV: a line a member, with its outcome and when that was known."""
        operation = get_operation(operation_id, principal=self.reader)
        outcome = MemberOutcome(self.query["outcome"]) if self.query["outcome"] else None
        record_export(operation, outcome, principal=self.principal)
        rows = ledger_rows(operation, principal=self.principal, outcome=outcome)
        return csv_attachment(
            self.request, COLUMNS, rows, f"operation-{operation_id}.csv", mark=bool(self.query["mark"])
        )


_CHANGES = {
    OperationChange.PAUSE: "Let nothing more begin until it is resumed. What is under way ends.",
    OperationChange.RESUME: "Go on with an operation that was paused or halted.",
    OperationChange.CANCEL: "End an operation: what is under way ends, what is not begun waits for a decision as"
    " before.\n\nIts state is `cancelling` until that is so, then `cancelled`.",
}


def _change_view(what: OperationChange, about: str) -> type[ApiView]:
    """Return the view that makes a change, and shows the operation as it is now."""

    def post(self: ApiView, operation_id: int) -> Response:
        operations.change(operation_id, what, reason=self.body["reason"], principal=self.principal)
        return shown(OPERATION, get_operation(operation_id, principal=self.reader))

    post.__doc__ = about
    handler = contract(Permission.DECIDE, "operations", {200: OPERATION}, body=OptionalReasonInput, acts=True)(post)
    return type(f"Operation_{what}", (ApiView,), {"operation": f"operation_{what}", "post": handler})


class SignOffInput(ReasonInput):
    """`hash`: that of the operation whose messages were seen. `decision`: refusing cancels the operation."""

    hash = Text(max_length=64)
    decision = serializers.ChoiceField(
        choices=[str(one) for one in SignOffDecision], required=False, default=str(SignOffDecision.CONSENT)
    )


class OperationSignOff(ApiView):
    """`/operations/{id}/sign-offs/`."""

    @contract(Permission.SIGN_OFF, "operations", {200: OPERATION}, body=SignOffInput, acts=True)
    def post(self, operation_id: int) -> Response:
        """Consent to an operation of another person, which begins it, or refuse.

        409 `hash_mismatch` for another selection, `operation_state_conflict` when it does not wait any more.
        """
        body = self.body
        sign_off(
            operation_id,
            SignOffDecision(body["decision"]),
            selection_hash=body["hash"],
            reason=body["reason"],
            principal=self.principal,
        )
        return shown(OPERATION, get_operation(operation_id, principal=self.reader))


urlpatterns = [
    route("operations/", OperationList, name="api-operations"),
    route("operations/<id:operation_id>/", OperationOne, name="api-operation"),
    route("operations/<id:operation_id>/members/", OperationMembers, name="api-operation-members"),
    route("operations/<id:operation_id>/members.csv", OperationLedger, name="api-operation-ledger"),
    *(
        route(f"operations/<id:operation_id>/{what}/", _change_view(what, about), name=f"api-operation-{what}")
        for what, about in _CHANGES.items()
    ),
    route("operations/<id:operation_id>/sign-offs/", OperationSignOff, name="api-operation-sign-offs"),
]
