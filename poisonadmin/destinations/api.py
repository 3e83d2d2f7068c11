"""Destinations."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.brokers.domain.broker_kinds import BROKERS, optional
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.errors import NEW
from poisonadmin.core.domain.settings import mistake_in, settings_of
from poisonadmin.destinations import queries as destinations
from poisonadmin.destinations.commands import delete_destination, save_destination, set_destination_enabled
from poisonadmin.destinations.domain.destination import MAX_NAME_CHARS, DestinationSettings
from poisonadmin.destinations.domain.handler_config import HANDLER
from poisonadmin.destinations.domain.http_config import HTTP
from poisonadmin.destinations.queries import DestinationRow
from poisonadmin.store.models.destination import DESTINATION_KINDS
from poisonadmin.web.api.contract import PAGE, JsonObject, Paged, ReasonInput, SettingsInput, Text, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

DESTINATION = Shape("Destination", DestinationRow, leave_out={"id"}, kinds={"kind": DESTINATION_KINDS})


def _printable(name: str) -> None:
    if (mistake := mistake_in(name, MAX_NAME_CHARS, is_in_path=True)) is not None:
        raise serializers.ValidationError(f"The name {mistake}.")


class DestinationInput(SettingsInput):
    __doc__ = (
        f"`config` for http: `{{url, {optional(HTTP[1:])}}}`; for handler:"
        f' `{{callable: "module:function", {optional(HANDLER[1:])}}}`, the module in one of'
        " the directories of POISONADMIN_HANDLER_PATH; "
        + "; ".join(f"for {kind.name}: `{{url, {optional(kind.destination)}}}`" for kind in BROKERS.values())
        + ". `secrets` are headers for http, `{username, password}` for a broker, write-only."
        " `owner`: the pattern of the addresses that it is kept for, `#` by default."
    )

    settings = settings_of(DestinationSettings, but=("name",))
    kind = serializers.ChoiceField(choices=DESTINATION_KINDS)
    config = JsonObject()
    secrets = JsonObject(required=False, allow_null=True, default=None)


class NewDestinationInput(DestinationInput):
    """With the name that policies will use."""

    name = Text(max_length=MAX_NAME_CHARS, validators=[_printable])


class DestinationList(ApiView):
    """`/destinations/`."""

    @contract(Permission.READ, "destinations", {200: Paged(DESTINATION)}, query=PAGE)
    def get(self) -> Response:
        """List destinations by name. Only the names of secrets are shown."""
        return self.listed(DESTINATION, destinations.list_destinations)

    @contract(Permission.CONFIGURE, "destinations", {201: DESTINATION}, body=NewDestinationInput, acts=True)
    def post(self) -> Response:
        """Create a destination; 409 when the name is taken."""
        fields = dict(self.body)
        name = fields.pop("name")
        self.principal.require_cover(fields["owner"] or ANY_WORDS)
        row = _saved(self, name, fields, expected_version=NEW)
        return self.created(DESTINATION, row, name)


class DestinationOne(ApiView):
    """`/destinations/{name}/`."""

    @contract(Permission.READ, "destinations", {200: DESTINATION})
    def get(self, name: str) -> Response:
        """Show a destination."""
        return shown(DESTINATION, destinations.get_destination(name, principal=self.principal))

    @contract(Permission.CONFIGURE, "destinations", {200: DESTINATION}, body=DestinationInput, decides=True)
    def put(self, name: str) -> Response:
        """Replace a destination. Secrets and an owner that are not given do not change."""
        destinations.get_destination(name, principal=self.reader)
        return shown(DESTINATION, _saved(self, name, self.body, expected_version=self.expected_version))

    @contract(Permission.CONFIGURE, "destinations", {204: None})
    def delete(self, name: str) -> Response:
        """Remove a destination that no policy names."""
        destinations.get_destination(name, principal=self.reader)
        delete_destination(name, principal=self.principal)
        return Response(status=204)


class DestinationEnable(ApiView):
    """`/destinations/{name}/enable/`."""

    @contract(Permission.PAUSE, "destinations", {200: DESTINATION}, body=ReasonInput, acts=True)
    def post(self, name: str) -> Response:
        """Deliver to it again."""
        return _switched(self, name, enabled=True)


class DestinationDisable(ApiView):
    """`/destinations/{name}/disable/`."""

    @contract(Permission.PAUSE, "destinations", {200: DESTINATION}, body=ReasonInput, acts=True)
    def post(self, name: str) -> Response:
        """Deliver nothing more to it until it is enabled."""
        return _switched(self, name, enabled=False)


def _saved(view: ApiView, name: str, fields: dict[str, Any], **more: Any) -> DestinationRow:
    save_destination(name, **fields, principal=view.principal, **more)
    return destinations.get_destination(name, principal=view.reader)


def _switched(view: ApiView, name: str, *, enabled: bool) -> Response:
    destinations.get_destination(name, principal=view.reader)
    set_destination_enabled(name, enabled=enabled, principal=view.principal, reason=view.body["reason"])
    return shown(DESTINATION, destinations.get_destination(name, principal=view.reader))


urlpatterns = [
    route("destinations/", DestinationList, name="api-destinations"),
    route("destinations/<path:name>/enable/", DestinationEnable, name="api-destination-enable"),
    route("destinations/<path:name>/disable/", DestinationDisable, name="api-destination-disable"),
    route("destinations/<path:name>/", DestinationOne, name="api-destination"),
]
