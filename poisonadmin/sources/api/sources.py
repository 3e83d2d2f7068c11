"""Sources, their files, and what was set aside."""

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.brokers.domain.broker_kinds import BROKERS, optional
from poisonadmin.core.domain.access import Permission
from poisonadmin.sources.commands import directories as operations
from poisonadmin.sources.commands import setup
from poisonadmin.sources.queries import sources
from poisonadmin.store.models.intake import SOURCE_KINDS, FileState
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.api.contract import PAGE, JsonObject, Paged, Raw, ReasonInput, StrictSerializer, Text, contract
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

SOURCE = Shape("Source", sources.SourceRow, kinds={"kind": SOURCE_KINDS})
SOURCE_FILE = Shape("SourceFile", sources.FileRow, kinds={"state": FileState})
REJECTED = Shape("RejectedLine", sources.RejectedRow, leave_out={"raw_start"}, also={"raw_text": str})


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
        return self.listed(SOURCE, sources.list_sources)

    @contract(Permission.CONFIGURE, "sources", {201: SOURCE}, body=NewSourceInput, acts=True)
    def post(self) -> Response:
        """Create a source, or replace the one of this name. Secrets that are not given do not change."""
        fields = dict(self.body)
        row = setup.save_source(fields.pop("name"), **fields, principal=self.principal)
        made = sources.get_source(row.id, principal=self.reader)
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
        name = sources.get_source(source_id, principal=self.reader).name
        setup.save_source(name, **self.body, principal=self.principal, expected_version=self.expected_version)
        return _shown(self, source_id)

    @contract(Permission.CONFIGURE, "sources", {204: None})
    def delete(self, source_id: int) -> Response:
        """Delete a source with its files and rejected lines. Its messages stay, here and at the broker."""
        sources.get_source(source_id, principal=self.reader)
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
        return self.listed(SOURCE_FILE, sources.list_files, source_id)


class SourceRejected(ApiView):
    """`/sources/{id}/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self, source_id: int) -> Response:
        """List the lines that were set aside, with number and reason, newest first."""
        return self.listed(REJECTED, sources.list_rejected, source_id)


class BatchRejected(ApiView):
    """`/sources/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self) -> Response:
        """List the lines of `POST /messages/batch/` that were set aside, newest first."""
        return self.listed(REJECTED, sources.list_rejected, None)


class RejectedRaw(ApiView):
    """`/sources/rejected/{id}/raw/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "sources", {200: Raw()})
    def get(self, rejected_id: int) -> HttpResponseBase:
        """Download all the bytes of a line that was set aside."""
        found = sources.rejected_raw(rejected_id, principal=self.principal)
        return attachment(self.request, found, f"rejected-{rejected_id}.line")


def _switched(view: ApiView, source_id: int, *, enabled: bool) -> Response:
    sources.get_source(source_id, principal=view.reader)
    setup.set_source_enabled(source_id, enabled=enabled, principal=view.reader, reason=view.body["reason"])
    return _shown(view, source_id)


def _shown(view: ApiView, source_id: int, status: int = 200) -> Response:
    return shown(SOURCE, sources.get_source(source_id, principal=view.reader), status)


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
]
