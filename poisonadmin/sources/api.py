"""Sources, their files and what was set aside; checks of their brokers, which a worker makes and which take nothing."""

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.brokers.domain.broker_kinds import BROKERS, optional
from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.sources import queries
from poisonadmin.sources.commands import broker_checks, setup
from poisonadmin.sources.commands import directories as operations
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.queries import BrokerCheckRow, get_broker_check, get_source
from poisonadmin.store.models.intake import SOURCE_KINDS, FileState
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.api.contract import (
    PAGE,
    Identifier,
    JsonObject,
    Paged,
    Raw,
    ReasonInput,
    StrictSerializer,
    Text,
    contract,
)
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

SOURCE = Shape("Source", queries.SourceRow, kinds={"kind": SOURCE_KINDS})
SOURCE_FILE = Shape("SourceFile", queries.FileRow, kinds={"state": FileState})
REJECTED = Shape("RejectedLine", queries.RejectedRow, leave_out={"raw_start"}, also={"raw_text": str})


class SourceInput(StrictSerializer):
    __doc__ = (
        "`config` for a directory: `{path}`; "
        + "; ".join(
            f"for {kind.name}: `{{url, {kind.drained}: [], {optional(kind.source)}}}`" for kind in BROKERS.values()
        )
        + ". `address` is a template with `{original}` and `{queue}`. `secrets` is the login at a broker,"
        " `{username, password}`, write-only."
    )

    kind = serializers.ChoiceField(choices=SOURCE_KINDS)
    config = JsonObject()
    secrets = JsonObject(required=False, allow_null=True, default=None)


class NewSourceInput(SourceInput):
    """With its name."""

    name = Text(max_length=100)


class SourceList(ApiView):
    """`/sources/`."""

    @contract(Permission.READ, "sources", {200: Paged(SOURCE)}, query=PAGE)
    def get(self) -> Response:
        """List sources, with the results of their files and messages. Only the names of secrets are shown."""
        return self.listed(SOURCE, queries.list_sources)

    @contract(Permission.CONFIGURE, "sources", {201: SOURCE}, body=NewSourceInput, acts=True)
    def post(self) -> Response:
        """Create a source, or replace the one of this name. Secrets that are not given do not change."""
        fields = dict(self.body)
        row = setup.save_source(fields.pop("name"), **fields, principal=self.principal)
        made = queries.get_source(row.id, principal=self.reader)
        return self.created(SOURCE, made, row.id)


class SourceOne(ApiView):
    """`/sources/{id}/`."""

    @contract(Permission.READ, "sources", {200: SOURCE})
    def get(self, source_id: int) -> Response:
        """Show a source."""
        return _shown(self, source_id)

    @contract(Permission.CONFIGURE, "sources", {200: SOURCE}, body=SourceInput, decides=True)
    def put(self, source_id: int) -> Response:
        """Replace a source's configuration; its kind stays.

        Secrets that are not given stay, unless the configuration goes to another place.
        """
        name = queries.get_source(source_id, principal=self.reader).name
        setup.save_source(name, **self.body, principal=self.principal, expected_version=self.expected_version)
        return _shown(self, source_id)

    @contract(Permission.CONFIGURE, "sources", {204: None})
    def delete(self, source_id: int) -> Response:
        """Delete a source with its files and rejected lines. Its messages stay, here and at the broker."""
        queries.get_source(source_id, principal=self.reader)
        setup.delete_source(source_id, principal=self.reader)
        return Response(status=204)


class SourceEnable(ApiView):
    """`/sources/{id}/enable/`."""

    @contract(Permission.PAUSE, "sources", {200: SOURCE}, body=ReasonInput, acts=True)
    def post(self, source_id: int) -> Response:
        """Take messages from it again."""
        return _switched(self, source_id, enabled=True)


class SourceDisable(ApiView):
    """`/sources/{id}/disable/`."""

    @contract(Permission.PAUSE, "sources", {200: SOURCE}, body=ReasonInput, acts=True)
    def post(self, source_id: int) -> Response:
        """Take nothing more from it until it is enabled."""
        return _switched(self, source_id, enabled=False)


class SourceIngest(ApiView):
    """`/sources/{id}/ingest/`."""

    @contract(Permission.INGEST, "sources", {202: SOURCE}, acts=True)
    def post(self, source_id: int) -> Response:
        """Take in new files or messages now, also in the pause after an error."""
        operations.request_ingest(source_id, self.reader)
        return _shown(self, source_id, status=202)


class SourceFiles(ApiView):
    """`/sources/{id}/files/`."""

    @contract(Permission.READ, "sources", {200: Paged(SOURCE_FILE)}, query=PAGE)
    def get(self, source_id: int) -> Response:
        """List a source's files, newest first."""
        return self.listed(SOURCE_FILE, queries.list_files, source_id)


class SourceRejected(ApiView):
    """`/sources/{id}/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self, source_id: int) -> Response:
        """List the lines that were set aside, with number and reason, newest first."""
        return _rejected(self, source_id)


class BatchRejected(ApiView):
    """`/sources/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self) -> Response:
        """List the lines of `POST /messages/batch/` that were set aside, newest first."""
        return _rejected(self, None)


class RejectedRaw(ApiView):
    """`/sources/rejected/{id}/raw/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "sources", {200: Raw()})
    def get(self, rejected_id: int) -> HttpResponseBase:
        """Download all the bytes of a line that was set aside."""
        found = queries.rejected_raw(rejected_id, principal=self.principal)
        note_payload_reads(self.principal, [rejected_id], queries.REJECTED_LINE)
        return attachment(self.request, found, f"rejected-{rejected_id}.line")


def _rejected(view: ApiView, source_id: int | None) -> Response:
    answer = view.listed(REJECTED, queries.list_rejected, source_id)
    note_payload_reads(view.principal, [int(one["id"]) for one in answer.data["results"]], queries.REJECTED_LINE)
    return answer


def _switched(view: ApiView, source_id: int, *, enabled: bool) -> Response:
    queries.get_source(source_id, principal=view.reader)
    setup.set_source_enabled(source_id, enabled=enabled, principal=view.reader, reason=view.body["reason"])
    return _shown(view, source_id)


def _shown(view: ApiView, source_id: int, status: int = 200) -> Response:
    return shown(SOURCE, queries.get_source(source_id, principal=view.reader), status)


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
        """Check a broker before it is saved: connect, preview or group messages, or list queues. Follow `Location`."""
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


class SourceGroups(ApiView):
    """`/sources/{id}/groups/`."""

    @contract(Permission.INGEST, "sources", {202: BROKER_CHECK}, acts=True)
    def post(self, source_id: int) -> Response:
        """Group the messages that wait at a source's broker by their failures, and leave them there.

        Up to 5,000 messages are read. RabbitMQ cannot be observed. Follow `Location`.
        """
        return _requested_of(self, source_id, BrokerCheckPurpose.GROUPS)


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
    route("sources/", SourceList, name="api-sources"),
    route("sources/rejected/", BatchRejected, name="api-batch-rejected"),
    route("sources/rejected/<id:rejected_id>/raw/", RejectedRaw, name="api-rejected-raw"),
    route("sources/<id:source_id>/", SourceOne, name="api-source"),
    route("sources/<id:source_id>/files/", SourceFiles, name="api-source-files"),
    route("sources/<id:source_id>/ingest/", SourceIngest, name="api-source-ingest"),
    route("sources/<id:source_id>/enable/", SourceEnable, name="api-source-enable"),
    route("sources/<id:source_id>/disable/", SourceDisable, name="api-source-disable"),
    route("sources/<id:source_id>/rejected/", SourceRejected, name="api-source-rejected"),
    route("sources/test/", SourceTest, name="api-source-try"),
    route("sources/checks/<id:check_id>/", BrokerCheckOne, name="api-broker-check"),
    route("sources/<id:source_id>/test/", SourceConnection, name="api-source-test"),
    route("sources/<id:source_id>/preview/", SourcePreview, name="api-source-preview"),
    route("sources/<id:source_id>/groups/", SourceGroups, name="api-source-groups"),
    route("sources/<id:source_id>/queues/", SourceQueues, name="api-source-queues"),
]
