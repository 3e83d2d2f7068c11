"""Addresses."""

from typing import Any

from rest_framework.response import Response

from poisonadmin.addresses import commands, queries
from poisonadmin.addresses.queries import AddressRow
from poisonadmin.core.domain.access import Permission
from poisonadmin.decisions.operations.commands.releases import resume_without
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.contract import (
    PAGE,
    Identifier,
    OptionalReasonInput,
    Paged,
    ReasonInput,
    choice,
    contract,
    pattern,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

_ADDRESS = {"status": AddressStatus}
_HIDDEN_OF_ADDRESS = {"id", "in_force", "patterns"}
ADDRESS = Shape(
    "Address",
    AddressRow,
    leave_out={*_HIDDEN_OF_ADDRESS, "queues"},
    also={"policy": dict[str, Any]},
    kinds=_ADDRESS,
)
ADDRESS_DETAIL = Shape(
    "AddressDetail",
    AddressRow,
    leave_out=_HIDDEN_OF_ADDRESS,
    also={"policy": dict[str, Any], "origins": dict[str, Any]},
    kinds=_ADDRESS,
)


class ResumeInput(ReasonInput):
    """`quarantine`: a message on the address that becomes NDLV `quarantined` before anything is delivered again."""

    quarantine = Identifier(required=False, allow_null=True, default=None)


class AddressList(ApiView):
    """`/addresses/`."""

    @contract(
        Permission.READ,
        "addresses",
        {200: Paged(ADDRESS)},
        query=(pattern("address", "An address or a pattern."), choice("status", AddressStatus, many=True), *PAGE),
    )
    def get(self) -> Response:
        """List addresses by name, with the policy in force and counts by state."""
        return self.listed(
            ADDRESS, queries.list_addresses, patterns=self.query["address"], statuses=self.query["status"]
        )


class AddressOne(ApiView):
    """`/addresses/{name}/`."""

    @contract(Permission.READ, "addresses", {200: ADDRESS_DETAIL})
    def get(self, name: str) -> Response:
        """Show an address, and the origin of each value of its policy."""
        return Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.principal)))


class AddressPause(ApiView):
    """`/addresses/{name}/pause/`."""

    @contract(Permission.PAUSE, "addresses", {200: ADDRESS_DETAIL}, body=OptionalReasonInput, acts=True)
    def post(self, name: str) -> Response:
        """Deliver nothing more from the address until it is resumed."""
        commands.pause(name, principal=self.principal, reason=self.body["reason"])
        return Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.reader)))


class AddressResume(ApiView):
    """`/addresses/{name}/resume/`."""

    @contract(Permission.PAUSE, "addresses", {200: ADDRESS_DETAIL, 202: ADDRESS_DETAIL}, body=ResumeInput, acts=True)
    def post(self, name: str) -> Response:
        """Resume a paused or stopped address; `quarantine` names a message to stop first.

        202: that needs a sign-off. `Location` is the operation that waits, and the address is as it was.
        """
        quarantine, who = self.body["quarantine"], {"principal": self.principal, "reason": self.body["reason"]}
        awaits = None
        if quarantine is None:
            commands.resume(name, **who)
        else:
            awaits = resume_without(name, quarantine, **who)
        response = Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.reader)))
        return self.accepted(response, awaits)


urlpatterns = [
    route("addresses/", AddressList, name="api-addresses"),
    # An address may hold slashes; one that ends in /pause is reached by the list only.
    route("addresses/<path:name>/pause/", AddressPause, name="api-address-pause"),
    route("addresses/<path:name>/resume/", AddressResume, name="api-address-resume"),
    route("addresses/<path:name>/", AddressOne, name="api-address"),
]
