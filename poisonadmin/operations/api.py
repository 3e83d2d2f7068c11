"""Selections, and the operations on them."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.lists import MessageRow
from poisonadmin.operations.commands import beginning, operations, selections
from poisonadmin.operations.domain.actions import OperationAction
from poisonadmin.operations.domain.ledger import MemberOutcome
from poisonadmin.operations.domain.lifecycle import OperationChange, OperationState
from poisonadmin.operations.domain.selection import SelectionOrder
from poisonadmin.operations.queries.operations import (
    OperationDetail,
    OperationRow,
    get_operation,
    list_operation_members,
    list_operations,
)
from poisonadmin.operations.queries.preview import OperationPreview, preview
from poisonadmin.operations.queries.selections import (
    SelectionDetail,
    get_selection,
    get_selection_detail,
    list_members,
)
from poisonadmin.sign_offs.commands.sign_off import sign_off
from poisonadmin.sign_offs.domain.sign_off import SignOffDecision
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.contract import (
    PAGE,
    FilterField,
    Identifier,
    JsonObject,
    Moment,
    Paged,
    ReasonInput,
    StrictSerializer,
    Text,
    boolean,
    choice,
    contract,
)
from poisonadmin.web.api.routes import route
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView

MESSAGE = Shape("Message", MessageRow, kinds={"state": State, "reason": Reason | None, "address_status": AddressStatus})
SELECTION = Shape("Selection", SelectionDetail, leave_out=("address_ids",), kinds={"order": SelectionOrder})
PREVIEW = Shape("OperationPreview", OperationPreview, also={"needs_sign_off": bool})
_KINDS: dict[str, Any] = {
    "action": OperationAction,
    "state": OperationState,
    "sign_off_decision": SignOffDecision | None,
}
_INTERNAL = ("walked", "changed", "requester", "patterns")
OPERATION = Shape("Operation", OperationDetail, leave_out=_INTERNAL, also={"done": int}, kinds=_KINDS)
LISTED_OPERATION = Shape("ListedOperation", OperationRow, leave_out=_INTERNAL, kinds=_KINDS)


def _shown(shape: Shape, row: Any) -> Response:
    return Response(shape.render(row))


def _created(view: ApiView, shape: Shape, row: Any, status: int) -> Response:
    location = view.request.build_absolute_uri(f"{row.id}/")
    return Response(shape.render(row), status=status, headers={"Location": location})


class SelectionInput(StrictSerializer):
    """`filter`: parameters of `GET /messages/`; or `ids`. `limit`: how many at most, the first in `order`."""

    filter = FilterField(required=False)
    ids = serializers.ListField(child=Identifier(), required=False, max_length=selections.MAX_IDS, min_length=1)
    limit = serializers.IntegerField(min_value=1, max_value=selections.MAX_MEMBERS, required=False, allow_null=True)
    order = serializers.ChoiceField(
        choices=[str(one) for one in SelectionOrder], required=False, default=str(SelectionOrder.OLDEST)
    )


class SelectionList(ApiView):
    """`/selections/`."""

    @contract(Permission.READ, "operations", {201: SELECTION}, body=SelectionInput, acts=True)
    def post(self) -> Response:
        """Freeze the messages that a filter finds now: what arrives or changes later does not join the selection.

        Only messages in scope become members. A selection that no operation is begun on is removed after a day.
        """
        body = self.body
        selection_id = selections.freeze(
            body.get("filter"),
            ids=body.get("ids"),
            order=SelectionOrder(body["order"]),
            most=body.get("limit"),
            principal=self.principal,
        )
        return _created(self, SELECTION, get_selection_detail(selection_id, principal=self.principal), 201)


class SelectionOne(ApiView):
    """`/selections/{id}/`."""

    @contract(Permission.READ, "operations", {200: SELECTION})
    def get(self, selection_id: int) -> Response:
        """Show a selection, and how many messages its filter has found since."""
        return _shown(SELECTION, get_selection_detail(selection_id, principal=self.principal))


class SelectionMembers(ApiView):
    """`/selections/{id}/messages/`."""

    @contract(Permission.READ, "operations", {200: Paged(MESSAGE)}, query=PAGE)
    def get(self, selection_id: int) -> Response:
        """List the members as they are now, oldest first."""
        return self.listed(MESSAGE, list_members, get_selection(selection_id, principal=self.principal))


class OperationPreviewInput(StrictSerializer):
    """What would be done, and the `params` that an operation would be given."""

    action = serializers.ChoiceField(choices=[str(one) for one in OperationAction])
    params = JsonObject(required=False)


class SelectionPreview(ApiView):
    """`/selections/{id}/preview/`."""

    @contract(
        Permission.READ,
        "operations",
        {200: PREVIEW},
        query=(choice("action", OperationAction, "What would be done; `approve` where it is left out."),),
    )
    def get(self, selection_id: int) -> Response:
        """Show what an operation would do with the members now, by the checks that carrying it out makes."""
        selection = get_selection(selection_id, principal=self.principal)
        action = OperationAction(self.query["action"] or OperationAction.APPROVE)
        return _shown(PREVIEW, preview(selection, action, principal=self.principal))

    @contract(Permission.READ, "operations", {200: PREVIEW}, body=OperationPreviewInput)
    def post(self, selection_id: int) -> Response:
        """Show the same for an action that needs `params`. Nothing is changed."""
        selection = get_selection(selection_id, principal=self.principal)
        action, params = OperationAction(self.body["action"]), self.body.get("params")
        return _shown(PREVIEW, preview(selection, action, principal=self.principal, params=params))


class OperationInput(ReasonInput):
    """`selection`: a selection's id, or an object with the `filter` that is to be frozen.

    `params`: what the action needs to know: to redirect, `{"address": "…"}`; to patch, `json_patch` (RFC 6902), or
    `payload` for one message, and `headers` (`set`, `remove`).
    `canary`: try 1 message, then 10, then 100 before all others, and halt when they fail again. `break_glass`: begin
    without the sign-off that it may need, which takes the permission of that name and is shown on it for ever.
    """

    selection = serializers.JSONField()
    action = serializers.ChoiceField(choices=[str(one) for one in OperationAction])
    rate_per_second = serializers.FloatField(required=False, allow_null=True)
    canary = serializers.BooleanField(required=False, default=False)
    until = Moment(required=False)
    params = JsonObject(required=False)
    break_glass = serializers.BooleanField(required=False, default=False)


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

    @contract(Permission.DECIDE, "operations", {202: OPERATION}, body=OperationInput, acts=True)
    def post(self) -> Response:
        """Begin an operation on a selection. It goes on until every member is accounted for.

        Above the limit of a sign-off rule its state is `waiting_for_sign_off`, and nothing of it is done before another
        person has consented (`POST /operations/{id}/sign-offs/`).
        """
        body = self.body
        operation_id = beginning.begin(
            _selection_of(body["selection"]),
            OperationAction(body["action"]),
            reason=body["reason"],
            principal=self.principal,
            rate_per_second=body.get("rate_per_second"),
            has_canary=body["canary"],
            until=body.get("until"),
            params=body.get("params"),
            break_glass=body["break_glass"],
        )
        return _created(self, OPERATION, get_operation(operation_id, principal=self.reader), 202)


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
        return _shown(OPERATION, get_operation(operation_id, principal=self.principal))


class OperationMembers(ApiView):
    """`/operations/{id}/members/`."""

    @contract(
        Permission.READ,
        "operations",
        {200: Paged(MESSAGE)},
        query=(choice("outcome", MemberOutcome, "A line of the ledger."), *PAGE),
    )
    def get(self, operation_id: int) -> Response:
        """List the members behind a line of the ledger as they are now, oldest first."""
        outcome = MemberOutcome(self.query["outcome"] or MemberOutcome.UNANSWERED)
        operation = get_operation(operation_id, principal=self.principal)
        return self.listed(MESSAGE, list_operation_members, operation, outcome)


class _ChangeView(ApiView):
    """What all changes of an operation have in common."""

    def changed(self, operation_id: int, what: OperationChange) -> Response:
        """Make the change and return the operation as it is now."""
        operations.change(operation_id, what, reason=self.body["reason"], principal=self.principal)
        return _shown(OPERATION, get_operation(operation_id, principal=self.reader))


_CHANGES: dict[str, Any] = {"body": ReasonInput, "acts": True}


class OperationPause(_ChangeView):
    """`/operations/{id}/pause/`."""

    @contract(Permission.DECIDE, "operations", {200: OPERATION}, **_CHANGES)
    def post(self, operation_id: int) -> Response:
        """Let nothing more begin until it is resumed. What is under way ends."""
        return self.changed(operation_id, OperationChange.PAUSE)


class OperationResume(_ChangeView):
    """`/operations/{id}/resume/`."""

    @contract(Permission.DECIDE, "operations", {200: OPERATION}, **_CHANGES)
    def post(self, operation_id: int) -> Response:
        """Go on with an operation that was paused or halted."""
        return self.changed(operation_id, OperationChange.RESUME)


class OperationCancel(_ChangeView):
    """`/operations/{id}/cancel/`."""

    @contract(Permission.DECIDE, "operations", {200: OPERATION}, **_CHANGES)
    def post(self, operation_id: int) -> Response:
        """End an operation: what is under way ends, what is not begun waits for a decision as before."""
        return self.changed(operation_id, OperationChange.CANCEL)


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
        return _shown(OPERATION, get_operation(operation_id, principal=self.reader))


urlpatterns = [
    route("selections/", SelectionList, name="api-selections"),
    route("selections/<id:selection_id>/", SelectionOne, name="api-selection"),
    route("selections/<id:selection_id>/messages/", SelectionMembers, name="api-selection-messages"),
    route("selections/<id:selection_id>/preview/", SelectionPreview, name="api-selection-preview"),
    route("operations/", OperationList, name="api-operations"),
    route("operations/<id:operation_id>/", OperationOne, name="api-operation"),
    route("operations/<id:operation_id>/members/", OperationMembers, name="api-operation-members"),
    route("operations/<id:operation_id>/pause/", OperationPause, name="api-operation-pause"),
    route("operations/<id:operation_id>/resume/", OperationResume, name="api-operation-resume"),
    route("operations/<id:operation_id>/cancel/", OperationCancel, name="api-operation-cancel"),
    route("operations/<id:operation_id>/sign-offs/", OperationSignOff, name="api-operation-sign-offs"),
]
