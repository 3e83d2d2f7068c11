"""The archive: its runs, its messages, legal holds and erasures."""

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.archive import queries
from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.holds import hold, lift
from poisonadmin.archive.commands.requests import cancel_archive_run, request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import ArchiveRunRow, ErasureRow, LegalHoldRow
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import DEFAULT_LIMIT
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.message_rows import MessageRow, messages_by_id
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import ArchivedMessageRow, list_archived
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.contract import (
    PAGE,
    FilterField,
    Moment,
    Paged,
    ReasonInput,
    StrictSerializer,
    choice,
    contract,
    identifier,
    pattern,
    read_values,
    refuse_empty,
    text,
    time,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

RUN = Shape("ArchiveRun", ArchiveRunRow, kinds={"state": RunState})
HOLD = Shape("LegalHold", LegalHoldRow)
ERASURE = Shape("Erasure", ErasureRow, kinds={"state": RunState})
ARCHIVED = Shape("ArchivedMessage", ArchivedMessageRow, kinds={"state": State, "reason": Reason | None})
MESSAGE = Shape("Message", MessageRow, kinds={"state": State, "reason": Reason | None, "address_status": AddressStatus})
_PAGE = {parameter.name: parameter for parameter in PAGE}
_FILTER = (
    text("message_id", many=True),
    text("conversation_id", many=True),
    pattern("address", "An address, or a pattern with * (one word) and # (any words)."),
    choice("state", State, many=True),
    choice("reason", Reason, many=True),
    identifier("group", "A failure group.", many=True),
    time("received_after"),
    time("received_before"),
    time("failed_after"),
    time("failed_before"),
    text("q", "The search box. `key.<name>=…` is a parameter.", many=True),
)


class ArchiveRunInput(StrictSerializer):
    """`as_of`: as if it were then; now where it is left out. `dry_run`: count only."""

    as_of = Moment(required=False, allow_null=True)
    dry_run = serializers.BooleanField(required=False, default=False)


class FilterAndReasonInput(ReasonInput):
    """`filter`: parameters of `GET /messages/`."""

    filter = FilterField()


class ErasureInput(FilterAndReasonInput):
    """`expected_count`: how many messages will be erased, as the caller has seen; left out, any number."""

    expected_count = serializers.IntegerField(required=False, min_value=0, max_value=MAX_ID)


class ArchiveRunList(ApiView):
    """`/archive/`."""

    @contract(Permission.READ, "archive", {200: Paged(RUN)}, query=PAGE)
    def get(self) -> Response:
        """List the runs of the archive, newest first: their manifests and sizes."""
        return self.listed(RUN, queries.list_runs)


class ArchiveRunOne(ApiView):
    """`/archive/{id}/`."""

    @contract(Permission.READ, "archive", {200: RUN})
    def get(self, run_id: int) -> Response:
        """Show a run, how far it is, and what it has archived."""
        return Response(RUN.render(queries.get_run(run_id, principal=self.principal)))


class ArchiveRunStart(ApiView):
    """`/archive/run/`."""

    @contract(Permission.CONFIGURE, "archive", {202: RUN}, body=ArchiveRunInput, acts=True)
    def post(self) -> Response:
        """Have the archive run, or count what a run would archive; the run that is under way, where there is one."""
        body = self.body
        made = request_archive_run(as_of=body.get("as_of"), is_dry_run=body["dry_run"], principal=self.principal)
        return shown_at(self, RUN, queries.get_run(made.id, principal=self.reader), f"../{made.id}/")


class ArchiveRunCancel(ApiView):
    """`/archive/{id}/cancel/`."""

    @contract(Permission.CONFIGURE, "archive", {200: RUN}, acts=True)
    def post(self, run_id: int) -> Response:
        """Have a run stop behind its present piece. What is archived stays so."""
        cancel_archive_run(run_id, principal=self.principal)
        return Response(RUN.render(queries.get_run(run_id, principal=self.reader)))


class ArchivedMessageList(ApiView):
    """`/archive/messages/`."""

    @contract(Permission.READ, "archive", {200: Paged(ARCHIVED)}, query=(*_FILTER, *PAGE), checks_query=False)
    def get(self) -> Response:
        """List archived messages, newest first. `GET /messages/{id}/` shows one with all that it had."""
        given = dict(self.request.query_params.lists())
        page = read_values({name: given.pop(name, []) for name in _PAGE}, _PAGE)
        refuse_empty(given)
        found = list_archived(
            parse_filter(given),
            principal=self.principal,
            cursor=page["cursor"],
            limit=page["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, ARCHIVED)


class MessageRestoreFromArchive(ApiView):
    """`/messages/{id}/restore_from_archive/`."""

    @contract(Permission.DECIDE, "archive", {200: MESSAGE}, body=ReasonInput, acts=True)
    def post(self, message_id: int) -> Response:
        """Make an archived message live again: NDLV, `from_archive`, with all that it had."""
        restore_from_archive(message_id, reason=self.body["reason"], principal=self.principal)
        return shown(MESSAGE, messages_by_id([message_id], principal=self.reader)[0])


class LegalHoldList(ApiView):
    """`/legal-holds/`."""

    @contract(Permission.CONFIGURE, "archive", {200: Paged(HOLD)}, query=PAGE)
    def get(self) -> Response:
        """List the legal holds, newest first."""
        return self.listed(HOLD, queries.list_holds)

    @contract(Permission.CONFIGURE, "archive", {201: HOLD}, body=FilterAndReasonInput, acts=True)
    def post(self) -> Response:
        """Have what matches neither archived nor erased until the hold is lifted."""
        made = hold(self.body["filter"], reason=self.body["reason"], principal=self.principal)
        return shown_at(self, HOLD, queries.get_hold(made.id, principal=self.reader), f"{made.id}/", 201)


class LegalHoldOne(ApiView):
    """`/legal-holds/{id}/`."""

    @contract(Permission.CONFIGURE, "archive", {200: HOLD})
    def get(self, hold_id: int) -> Response:
        """Show a legal hold."""
        return Response(HOLD.render(queries.get_hold(hold_id, principal=self.principal)))


class LegalHoldLift(ApiView):
    """`/legal-holds/{id}/lift/`."""

    @contract(Permission.CONFIGURE, "archive", {200: HOLD}, body=ReasonInput, acts=True)
    def post(self, hold_id: int) -> Response:
        """Lift a legal hold."""
        lift(hold_id, reason=self.body["reason"], principal=self.principal)
        return Response(HOLD.render(queries.get_hold(hold_id, principal=self.reader)))


class ErasureList(ApiView):
    """`/erasures/`."""

    @contract(Permission.CONFIGURE, "archive", {200: Paged(ERASURE)}, query=PAGE)
    def get(self) -> Response:
        """List the erasures, newest first."""
        return self.listed(ERASURE, queries.list_erasures)

    @contract(Permission.CONFIGURE, "archive", {202: ERASURE}, body=ErasureInput, acts=True)
    def post(self) -> Response:
        """Have what matches erased, live and archived. What is under way, or held, is left alone."""
        made = request_erasure(
            self.body["filter"],
            reason=self.body["reason"],
            principal=self.principal,
            expected=self.body.get("expected_count"),
        )
        return shown_at(self, ERASURE, queries.get_erasure(made.id, principal=self.reader), f"{made.id}/")


class ErasureOne(ApiView):
    """`/erasures/{id}/`."""

    @contract(Permission.CONFIGURE, "archive", {200: ERASURE})
    def get(self, erasure_id: int) -> Response:
        """Show an erasure, and how many messages it has erased."""
        return Response(ERASURE.render(queries.get_erasure(erasure_id, principal=self.principal)))


def shown_at(view: ApiView, shape: Shape, row: object, place: str, status: int = 202) -> Response:
    """Return what was made or asked for, with the URL that shows it."""
    response = Response(shape.render(row), status=status)
    response["Location"] = view.request.build_absolute_uri(place)
    return response


urlpatterns = [
    route("archive/", ArchiveRunList, name="api-archive"),
    route("archive/run/", ArchiveRunStart, name="api-archive-run"),
    route("archive/messages/", ArchivedMessageList, name="api-archived-messages"),
    route("archive/<id:run_id>/", ArchiveRunOne, name="api-archive-one"),
    route("archive/<id:run_id>/cancel/", ArchiveRunCancel, name="api-archive-cancel"),
    route(
        "messages/<id:message_id>/restore_from_archive/",
        MessageRestoreFromArchive,
        name="api-message-restore-from-archive",
    ),
    route("legal-holds/", LegalHoldList, name="api-legal-holds"),
    route("legal-holds/<id:hold_id>/", LegalHoldOne, name="api-legal-hold"),
    route("legal-holds/<id:hold_id>/lift/", LegalHoldLift, name="api-legal-hold-lift"),
    route("erasures/", ErasureList, name="api-erasures"),
    route("erasures/<id:erasure_id>/", ErasureOne, name="api-erasure"),
]
