"""Messages: taken in, listed, shown."""

from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.queries.paging import DEFAULT_LIMIT
from poisonadmin.desk.commands.reveal import RevealedMessage, reveal
from poisonadmin.desk.queries.detail import (
    VersionRow,
    attempts,
    get_message,
    get_transport,
    history,
    hops,
    payload,
    version_payload,
    versions,
)
from poisonadmin.desk.queries.related import RelatedRow, list_related
from poisonadmin.desk.queries.schedule import Schedule, schedule
from poisonadmin.desk.queries.schedule_steps import NextStep, PastStep
from poisonadmin.intake.commands import accept
from poisonadmin.intake.domain.envelope import ENVELOPE, parse_line
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.messages.queries.detail_rows import AttemptRow, HistoryRow, HopRow, MessageDetail, Transport
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.domain.words import ADDRESS, FLAG, ID, MOMENT, TEXT, WORDS, SearchWord
from poisonadmin.search.queries.lists import ORDERINGS, list_messages
from poisonadmin.search.queries.meanings import not_searched
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.api.contract import (
    CURSOR,
    LIMIT,
    PAGE,
    Paged,
    Parameter,
    Raw,
    ReasonInput,
    boolean,
    choice,
    contract,
    identifier,
    ordering,
    pattern,
    read_values,
    refuse_empty,
    text,
    time,
)
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import BREAKER, Shape
from poisonadmin.web.api.view import ApiView, route, shown

_MESSAGE = {"state": State, "reason": Reason | None, "address_status": AddressStatus}
MESSAGE = Shape("Message", MessageRow, kinds=_MESSAGE)
MESSAGE_DETAIL = Shape(
    "MessageDetail",
    MessageDetail,
    leave_out={"header_bytes"},
    also={"headers": dict[str, str]},
    kinds=_MESSAGE,
)
ATTEMPT = Shape(
    "Attempt",
    AttemptRow,
    leave_out={"response", "output"},
    also={"response_text": str | None, "output_text": str | None, "signal": str | None},
    kinds={"outcome": Outcome, "node_end": NodeEnd | None},
)
HISTORY = Shape(
    "StateChange",
    HistoryRow,
    kinds={"from_state": State | None, "to_state": State, "event": Event, "reason": Reason | None},
)
HOP = Shape("Hop", HopRow)
RELATED = Shape("RelatedMessage", RelatedRow, kinds={"state": State, "reason": Reason | None})
VERSION = Shape("Version", VersionRow)
TRANSPORT = Shape("Transport", Transport)
NEXT_STEP = Shape(
    "NextStep",
    NextStep,
    also={"formula": str | None, "sentence": str},
    kinds={"then": State, "reason": Reason | None},
)
PAST_STEP = Shape("PastStep", PastStep, also={"formula": str | None}, kinds={"outcome": Outcome})
SCHEDULE = Shape(
    "Schedule",
    Schedule,
    kinds={"past": list[PAST_STEP], "next": list[NEXT_STEP], "breakers": list[BREAKER]},  # type: ignore[valid-type]
)


REVEALED = Shape("RevealedMessage", RevealedMessage, kinds={"failures": list[ATTEMPT]})  # type: ignore[valid-type]
RECEIVED_BY = "api"


ORDERING = ordering(ORDERINGS, "Newest first is -id.")
_PAGE = {parameter.name: parameter for parameter in (LIMIT, CURSOR, ORDERING)}


def _parameter(word: SearchWord) -> Parameter:
    if word.kind.values:
        return choice(word.name, word.kind.values, word.about, many=True)
    if word.kind is TEXT:
        return text(word.name, word.about, many=True)
    if word.kind is ID:
        return identifier(word.name, word.about, many=True)
    return {ADDRESS: pattern, FLAG: boolean, MOMENT: time}[word.kind](word.name, word.about)


FILTER = (
    *(_parameter(word) for word in WORDS if word.is_parameter and not word.is_named),
    text(
        "q",
        "The search box: words and field:value pairs. `header.<name>=…`, `key.<name>=…` are parameters.",
        many=True,
    ),
)


class MessageList(ApiView):
    """`/messages/`."""

    @contract(Permission.READ, "messages", {200: Paged(MESSAGE)}, query=(*FILTER, ORDERING, *PAGE), checks_query=False)
    def get(self) -> Response:
        """List messages, newest first.

        Any of the values of a repeated parameter may hold; all parameters must. `header.<name>=<value>` compares a
        header, `key.<name>=<value>` a business key. `count` is exact where only states, addresses,
        original addresses, groups and reasons are named; otherwise messages are counted to 10,000.
        `not_searched`, where it is there, names addresses that were left out: what is asked for is masked there.
        """
        given = dict(self.request.query_params.lists())
        page = read_values({name: given.pop(name, []) for name in _PAGE}, _PAGE)
        refuse_empty(given)
        wanted = parse_filter(given)
        found = list_messages(
            wanted,
            principal=self.principal,
            cursor=page["cursor"],
            limit=page["limit"] or DEFAULT_LIMIT,
            ordering=page["ordering"] or "-id",
        )
        return self.leaving_out(not_searched(wanted, self.principal), self.paged(found, MESSAGE))

    @contract(
        Permission.INGEST,
        "messages",
        {201: MESSAGE_DETAIL, 200: MESSAGE_DETAIL},
        raw_body={"application/json": ENVELOPE},
        acts=True,
    )
    def post(self) -> Response:
        """Take one message in.

        201 with the message; 200 with the first one when the same (address, message_id) was taken in with the same
        body before; 409 `message_id_conflict` when it was with another body. With `dead_letter` it is not delivered
        but waits for a decision (NDLV, reason `imported`).
        """
        if self.request.content_type.split(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaType(self.request.content_type)
        envelope = parse_line(self.request._request.body)  # noqa: SLF001  (strict JSON, which REST framework does not read)
        accepted = accept.accept(envelope, principal=self.principal, received_by=RECEIVED_BY)
        response = Response(
            MESSAGE_DETAIL.render(get_message(accepted.id, principal=self.reader)),
            status=201 if accepted.created else 200,
        )
        response["Location"] = f"{self.request.path}{accepted.id}/"
        return response


class MessageOne(ApiView):
    """`/messages/{id}/`."""

    @contract(Permission.READ, "messages", {200: MESSAGE_DETAIL})
    def get(self, message_id: int) -> HttpResponseBase:
        """Show a message. Its ETag is what decisions take as If-Match."""
        return shown(MESSAGE_DETAIL, get_message(message_id, principal=self.principal))


class MessageAttempts(ApiView):
    """`/messages/{id}/attempts/`."""

    @contract(Permission.READ, "messages", {200: Paged(ATTEMPT)}, query=PAGE)
    def get(self, message_id: int) -> Response:
        """Show the failure log: each delivery try, newest first. Attempt 0 is the failure before import."""
        return self.listed(ATTEMPT, attempts, message_id)


class MessageHistory(ApiView):
    """`/messages/{id}/history/`."""

    @contract(Permission.READ, "messages", {200: Paged(HISTORY)}, query=PAGE)
    def get(self, message_id: int) -> Response:
        """Show each change of state, newest first."""
        return self.listed(HISTORY, history, message_id)


class MessageHops(ApiView):
    """`/messages/{id}/hops/`."""

    @contract(Permission.READ, "messages", {200: Paged(HOP)}, query=PAGE)
    def get(self, message_id: int) -> Response:
        """Show each move from an address to another, newest first."""
        return self.listed(HOP, hops, message_id)


class MessageRelated(ApiView):
    """`/messages/{id}/related/`."""

    @contract(Permission.READ, "messages", {200: Paged(RELATED)}, query=PAGE)
    def get(self, message_id: int) -> Response:
        """List the live messages that share its conversation or its trace, itself among them, oldest first.

        A trace is named by `traceparent`, `b3`, `x-b3-traceid` or `uber-trace-id` among the headers.
        """
        return self.listed(RELATED, list_related, message_id)


class MessageTransport(ApiView):
    """`/messages/{id}/transport/`."""

    @contract(Permission.READ, "messages", {200: TRANSPORT})
    def get(self, message_id: int) -> Response:
        """Show what its broker reported of the message: routing, key, properties, typed headers."""
        return Response(TRANSPORT.render(get_transport(message_id, principal=self.principal)))


class MessageSchedule(ApiView):
    """`/messages/{id}/schedule/`."""

    @contract(Permission.READ, "messages", {200: SCHEDULE})
    def get(self, message_id: int) -> Response:
        """Explain when it was tried and when it will be, with the terms of each wait."""
        return Response(SCHEDULE.render(schedule(message_id, principal=self.principal)))


class MessageVersions(ApiView):
    """`/messages/{id}/versions/`."""

    @contract(Permission.READ, "messages", {200: Paged(VERSION)})
    def get(self, message_id: int) -> Response:
        """List the versions of the payload and the headers, newest first. Number 1 is what came in."""
        return self.whole(VERSION, versions(message_id, principal=self.principal))


class MessageVersionPayload(ApiView):
    """`/messages/{id}/versions/{number}/payload/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "messages", {200: Raw()})
    def get(self, message_id: int, number: int) -> HttpResponseBase:
        """Download the payload of a version."""
        found = version_payload(message_id, number, principal=self.principal)
        note_payload_reads(self.principal, [message_id])
        return attachment(self.request, found, f"message-{message_id}-version-{number}.payload")


class MessagePayload(ApiView):
    """`/messages/{id}/payload/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "messages", {200: Raw()})
    def get(self, message_id: int) -> HttpResponseBase:
        """Download the payload: what the next delivery carries, always as an attachment, never as what it claims to be.

        It is sent as it is read, a few megabytes at a time.
        """
        found = payload(message_id, principal=self.principal)
        note_payload_reads(self.principal, [message_id])
        return attachment(self.request, found, f"message-{message_id}.payload")


class MessageReveal(ApiView):
    """`/messages/{id}/reveal/`."""

    @contract(Permission.REVEAL, "messages", {200: REVEALED}, body=ReasonInput)
    def post(self, message_id: int) -> Response:
        """Show a message in the clear, whatever is masked; the audit log keeps who has read it, and the reason."""
        return Response(REVEALED.render(reveal(message_id, self.body["reason"], principal=self.principal)))


urlpatterns = [
    route("messages/", MessageList, name="api-messages"),
    route("messages/<id:message_id>/", MessageOne, name="api-message"),
    route("messages/<id:message_id>/attempts/", MessageAttempts, name="api-message-attempts"),
    route("messages/<id:message_id>/history/", MessageHistory, name="api-message-history"),
    route("messages/<id:message_id>/hops/", MessageHops, name="api-message-hops"),
    route("messages/<id:message_id>/payload/", MessagePayload, name="api-message-payload"),
    route("messages/<id:message_id>/related/", MessageRelated, name="api-message-related"),
    route("messages/<id:message_id>/reveal/", MessageReveal, name="api-message-reveal"),
    route("messages/<id:message_id>/schedule/", MessageSchedule, name="api-message-schedule"),
    route("messages/<id:message_id>/transport/", MessageTransport, name="api-message-transport"),
    route("messages/<id:message_id>/versions/", MessageVersions, name="api-message-versions"),
    route(
        "messages/<id:message_id>/versions/<id:number>/payload/",
        MessageVersionPayload,
        name="api-message-version-payload",
    ),
]
