"""Addresses."""

from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.api.contract import Paged, contract
from poisonadmin.api.inputs import Identifier, ReasonInput
from poisonadmin.api.parameters import PAGE, choice, pattern
from poisonadmin.api.shapes import ADDRESS, ADDRESS_DETAIL
from poisonadmin.api.view import ApiView
from poisonadmin.domain.access import Permission
from poisonadmin.operations import address_status as operations
from poisonadmin.queries import addresses as queries
from poisonadmin.queries.paging import DEFAULT_LIMIT
from poisonadmin.store.models.lane import AddressStatus


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
    def get(self, request: Request) -> Response:
        """List addresses by name, with the policy in force and counts by state."""
        found = queries.list_addresses(
            principal=self.principal,
            patterns=self.query["address"],
            statuses=self.query["status"],
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, ADDRESS)


class AddressOne(ApiView):
    """`/addresses/{name}/`."""

    @contract(Permission.READ, "addresses", {200: ADDRESS_DETAIL})
    def get(self, request: Request, name: str) -> Response:
        """Show an address, with where each value of its policy comes from."""
        return Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.principal)))


class AddressPause(ApiView):
    """`/addresses/{name}/pause/`."""

    @contract(Permission.PAUSE, "addresses", {200: ADDRESS_DETAIL}, body=ReasonInput, acts=True)
    def post(self, request: Request, name: str) -> Response:
        """Deliver nothing more from the address until it is resumed."""
        operations.pause(name, principal=self.principal, reason=self.body["reason"])
        return Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.reader)))


class AddressResume(ApiView):
    """`/addresses/{name}/resume/`."""

    @contract(Permission.PAUSE, "addresses", {200: ADDRESS_DETAIL}, body=ResumeInput, acts=True)
    def post(self, request: Request, name: str) -> Response:
        """Deliver from a paused or stopped address again, with `quarantine` without the message that it names."""
        operations.resume(
            name, principal=self.principal, reason=self.body["reason"], quarantine=self.body["quarantine"]
        )
        return Response(ADDRESS_DETAIL.render(queries.get_address(name, principal=self.reader)))
