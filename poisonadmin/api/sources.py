"""Sources, their files, and what was set aside."""

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.api.attachments import attachment
from poisonadmin.api.contract import Paged, Raw, contract
from poisonadmin.api.inputs import JsonObject, StrictSerializer, Text
from poisonadmin.api.parameters import PAGE
from poisonadmin.api.rendering import TakeAny
from poisonadmin.api.shapes import REJECTED, SOURCE, SOURCE_FILE
from poisonadmin.api.view import ApiView
from poisonadmin.domain.access import Permission
from poisonadmin.operations import source_setup
from poisonadmin.operations import sources as operations
from poisonadmin.queries import sources
from poisonadmin.queries.paging import DEFAULT_LIMIT
from poisonadmin.store.models.intake import SourceKind


class SourceInput(StrictSerializer):
    """`config` for a directory: `{path}`."""

    name = Text(max_length=100)
    kind = serializers.ChoiceField(choices=[str(kind) for kind in SourceKind])
    config = JsonObject()


class SourceList(ApiView):
    """`/sources/`."""

    @contract(Permission.READ, "sources", {200: Paged(SOURCE)}, query=PAGE)
    def get(self, request: Request) -> Response:
        """List sources, with what their files came to."""
        found = sources.list_sources(
            principal=self.principal, cursor=self.query["cursor"], limit=self.query["limit"] or DEFAULT_LIMIT
        )
        return self.paged(found, SOURCE)

    @contract(Permission.CONFIGURE, "sources", {201: SOURCE}, body=SourceInput, acts=True)
    def post(self, request: Request) -> Response:
        """Create a source, or replace the one of this name."""
        fields = self.body
        row = source_setup.save_source(
            fields["name"], kind=fields["kind"], config=fields["config"], principal=self.principal
        )
        response = Response(SOURCE.render(sources.get_source(row.id, principal=self.reader)), status=201)
        response["Location"] = request.build_absolute_uri(f"{row.id}/")
        return response


class SourceOne(ApiView):
    """`/sources/{id}/`."""

    @contract(Permission.READ, "sources", {200: SOURCE})
    def get(self, request: Request, source_id: int) -> Response:
        """Show a source."""
        return Response(SOURCE.render(sources.get_source(source_id, principal=self.principal)))


class SourceIngest(ApiView):
    """`/sources/{id}/ingest/`."""

    @contract(Permission.INGEST, "sources", {202: SOURCE}, acts=True)
    def post(self, request: Request, source_id: int) -> Response:
        """Look for new files now instead of at the next tick."""
        operations.request_ingest(source_id, self.principal)
        return Response(SOURCE.render(sources.get_source(source_id, principal=self.reader)), status=202)


class SourceFiles(ApiView):
    """`/sources/{id}/files/`."""

    @contract(Permission.READ, "sources", {200: Paged(SOURCE_FILE)}, query=PAGE)
    def get(self, request: Request, source_id: int) -> Response:
        """List a source's files, newest first."""
        found = sources.list_files(
            source_id,
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, SOURCE_FILE)


class SourceRejected(ApiView):
    """`/sources/{id}/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self, request: Request, source_id: int) -> Response:
        """List the lines that were set aside, with number and reason, newest first."""
        found = sources.list_rejected(
            source_id,
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, REJECTED)


class BatchRejected(ApiView):
    """`/sources/rejected/`."""

    @contract(Permission.READ_PAYLOAD, "sources", {200: Paged(REJECTED)}, query=PAGE)
    def get(self, request: Request) -> Response:
        """List the lines of `POST /messages/batch/` that were set aside, newest first."""
        found = sources.list_rejected(
            None, principal=self.principal, cursor=self.query["cursor"], limit=self.query["limit"] or DEFAULT_LIMIT
        )
        return self.paged(found, REJECTED)


class RejectedRaw(ApiView):
    """`/sources/rejected/{id}/raw/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "sources", {200: Raw()})
    def get(self, request: Request, rejected_id: int) -> HttpResponseBase:
        """Download all the bytes of a line that was set aside."""
        found = sources.rejected_raw(rejected_id, principal=self.principal)
        return attachment(request, found, f"rejected-{rejected_id}.line")
