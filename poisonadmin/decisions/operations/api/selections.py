"""Selections, and what an operation would do with them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.replay import WAIVABLE, Waivable, checked_waive
from poisonadmin.decisions.operations.queries.preview import OperationPreview, preview
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.commands import selections
from poisonadmin.search.domain.selection import MAX_MEMBERS, SelectionOrder
from poisonadmin.search.queries.selections import SelectionDetail, get_selection, get_selection_detail, list_members
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.contract import (
    PAGE,
    FilterField,
    Identifier,
    JsonObject,
    Paged,
    StrictSerializer,
    boolean,
    choice,
    contract,
    decimal,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

MESSAGE = Shape("Message", MessageRow, kinds={"state": State, "reason": Reason | None, "address_status": AddressStatus})


def shown(shape: Shape, row: Any) -> Response:
    """Return an object that has no ETag."""
    return Response(shape.render(row))


def created(view: ApiView, shape: Shape, row: Any, status: int) -> Response:
    """Return a new object, whose URL is its list's with its id behind it."""
    location = view.request.build_absolute_uri(f"{row.id}/")
    return Response(shape.render(row), status=status, headers={"Location": location})


SELECTION = Shape(
    "Selection",
    SelectionDetail,
    leave_out=("address_ids", "reads_payloads", "person"),
    kinds={"order": SelectionOrder},
)
PREVIEW = Shape("OperationPreview", OperationPreview, also={"needs_sign_off": bool})


class SelectionInput(StrictSerializer):
    """`filter`: parameters of `GET /messages/`; or `ids`. `limit`: how many at most, the first in `order`."""

    filter = FilterField(required=False)
    ids = serializers.ListField(child=Identifier(), required=False, max_length=selections.MAX_IDS, min_length=1)
    limit = serializers.IntegerField(min_value=1, max_value=MAX_MEMBERS, required=False, allow_null=True)
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
        return created(self, SELECTION, get_selection_detail(selection_id, principal=self.principal), 201)


class SelectionOne(ApiView):
    """`/selections/{id}/`."""

    @contract(Permission.READ, "operations", {200: SELECTION})
    def get(self, selection_id: int) -> Response:
        """Show a selection, and how many messages its filter has found since."""
        return shown(SELECTION, get_selection_detail(selection_id, principal=self.principal))


class SelectionMembers(ApiView):
    """`/selections/{id}/messages/`."""

    @contract(Permission.READ, "operations", {200: Paged(MESSAGE)}, query=PAGE)
    def get(self, selection_id: int) -> Response:
        """List the members as they are now, oldest first."""
        return self.listed(MESSAGE, list_members, get_selection(selection_id, principal=self.principal))


class OperationPreviewInput(StrictSerializer):
    """The action, and the `params`, rate and canary that an operation would be given.

    `waive`: refusals that do not count: `newer_delivered`, `may_have_been_processed`.
    """

    action = serializers.ChoiceField(choices=[str(one) for one in OperationAction])
    params = JsonObject(required=False)
    rate_per_second = serializers.FloatField(required=False, allow_null=True)
    canary = serializers.BooleanField(required=False, default=False)
    waive = serializers.ListField(child=serializers.ChoiceField(choices=WAIVABLE), required=False, default=list)


def previewed(
    selection_id: int, given: Mapping[str, Any], action: OperationAction, pace: Pace, principal: Principal
) -> Response:
    """Answer with what an operation would do with the members of a selection now."""
    selection = get_selection(selection_id, principal=principal)
    waive = checked_waive(given["waive"], action)
    found = preview(selection, action, principal=principal, params=given.get("params"), pace=pace, waive=waive)
    note_payload_reads(principal, [one.message_id for one in found.change.samples] if found.change else [])
    return shown(PREVIEW, found)


class SelectionPreview(ApiView):
    """`/selections/{id}/preview/`."""

    @contract(
        Permission.READ,
        "operations",
        {200: PREVIEW},
        query=(
            choice("action", OperationAction, "What would be done; `approve` where it is left out."),
            decimal("rate_per_second", "As an operation takes it: it says how long the deliveries take."),
            boolean("canary", "Whether the operation would have one."),
            choice("waive", Waivable, "A refusal that does not count.", many=True),
        ),
    )
    def get(self, selection_id: int) -> Response:
        """Show what an operation would do with the members now, by the checks that carrying it out makes."""
        action = OperationAction(self.query["action"] or OperationAction.APPROVE)
        pace = Pace(self.query["rate_per_second"], bool(self.query["canary"]))
        return previewed(selection_id, self.query, action, pace, self.principal)

    @contract(Permission.READ, "operations", {200: PREVIEW}, body=OperationPreviewInput)
    def post(self, selection_id: int) -> Response:
        """Show the same for an action that needs `params`. Nothing is changed."""
        pace = Pace(self.body.get("rate_per_second"), self.body["canary"])
        action = OperationAction(self.body["action"])
        return previewed(selection_id, self.body, action, pace, self.principal)


urlpatterns = [
    route("selections/", SelectionList, name="api-selections"),
    route("selections/<id:selection_id>/", SelectionOne, name="api-selection"),
    route("selections/<id:selection_id>/messages/", SelectionMembers, name="api-selection-messages"),
    route("selections/<id:selection_id>/preview/", SelectionPreview, name="api-selection-preview"),
]
