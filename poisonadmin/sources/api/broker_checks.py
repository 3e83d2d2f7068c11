"""Broker checks: test the connection, preview waiting messages, list queues. A worker checks; nothing is taken."""

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.access import Permission
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.sources.commands import broker_checks
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.queries.broker_checks import BrokerCheckRow, get_broker_check
from poisonadmin.sources.queries.sources import get_source
from poisonadmin.store.models.intake import SOURCE_KINDS
from poisonadmin.web.api.contract import Identifier, JsonObject, StrictSerializer, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

BROKER_CHECK = Shape(
    "BrokerCheck",
    BrokerCheckRow,
    kinds={"purpose": BrokerCheckPurpose, "kind": SOURCE_KINDS, "state": RunState},
)
PREFIX = "/api/v1/sources/checks/"


class BrokerCheckInput(StrictSerializer):
    """`kind`, `config` and `secrets` as for a source that is to be created; `queues` or `topics` may be left out where
    the purpose is `queues`. Without `secrets` those of the source `source_id` are used.
    """

    purpose = serializers.ChoiceField(
        choices=[str(one) for one in BrokerCheckPurpose], default=str(BrokerCheckPurpose.CONNECTION)
    )
    kind = serializers.ChoiceField(choices=list(BROKERS))
    config = JsonObject()
    secrets = JsonObject(required=False, allow_null=True, default=None)
    source_id = Identifier(required=False, allow_null=True, default=None)


class SourceTest(ApiView):
    """`/sources/test/`."""

    @contract(Permission.CONFIGURE, "sources", {202: BROKER_CHECK}, body=BrokerCheckInput, acts=True)
    def post(self) -> Response:
        """Check a broker before it is saved: connect, preview messages, or list queues. Follow `Location`."""
        fields = dict(self.body)
        purpose, kind, config = BrokerCheckPurpose(fields.pop("purpose")), fields.pop("kind"), fields.pop("config")
        return _requested(
            self, broker_checks.request_broker_check(kind, config, purpose, principal=self.reader, **fields)
        )


class SourceConnection(ApiView):
    """`/sources/{id}/test/`."""

    @contract(Permission.INGEST, "sources", {202: BROKER_CHECK}, acts=True)
    def post(self, source_id: int) -> Response:
        """Try the connection to a source's broker, and count what waits. Follow `Location`."""
        return _requested_of(self, source_id, BrokerCheckPurpose.CONNECTION)


class SourcePreview(ApiView):
    """`/sources/{id}/preview/`."""

    @contract(Permission.INGEST, "sources", {202: BROKER_CHECK}, acts=True)
    def post(self, source_id: int) -> Response:
        """Show the first messages that wait at a source's broker, and leave them there. Follow `Location`."""
        return _requested_of(self, source_id, BrokerCheckPurpose.PREVIEW)


class SourceQueues(ApiView):
    """`/sources/{id}/queues/`."""

    @contract(Permission.INGEST, "sources", {202: BROKER_CHECK}, acts=True)
    def post(self, source_id: int) -> Response:
        """List the queues or topics of a source's broker, those with dead letters first. Follow `Location`."""
        return _requested_of(self, source_id, BrokerCheckPurpose.QUEUES)


class BrokerCheckOne(ApiView):
    """`/sources/checks/{id}/`."""

    @contract(Permission.READ, "sources", {200: BROKER_CHECK})
    def get(self, check_id: int) -> Response:
        """Get a broker check; only its caller can, for a quarter of an hour. A result comes when it has succeeded."""
        return Response(BROKER_CHECK.render(get_broker_check(check_id, principal=self.principal)))


def _requested_of(view: ApiView, source_id: int, purpose: BrokerCheckPurpose) -> Response:
    get_source(source_id, principal=view.reader)
    return _requested(view, broker_checks.request_source_check(source_id, purpose, principal=view.reader))


def _requested(view: ApiView, check_id: int) -> Response:
    response = Response(BROKER_CHECK.render(get_broker_check(check_id, principal=view.reader)), status=202)
    response["Location"] = view.request.build_absolute_uri(f"{PREFIX}{check_id}/")
    return response


urlpatterns = [
    route("sources/test/", SourceTest, name="api-source-try"),
    route("sources/checks/<id:check_id>/", BrokerCheckOne, name="api-broker-check"),
    route("sources/<id:source_id>/test/", SourceConnection, name="api-source-test"),
    route("sources/<id:source_id>/preview/", SourcePreview, name="api-source-preview"),
    route("sources/<id:source_id>/queues/", SourceQueues, name="api-source-queues"),
]
