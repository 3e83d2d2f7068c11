"""Messages: taken in, listed, shown."""

from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import DEFAULT_LIMIT
from poisonadmin.intake.commands import accept
from poisonadmin.intake.domain.envelope import parse_line
from poisonadmin.intake.domain.envelope_schema import ENVELOPE
from poisonadmin.messages.api.shapes import MESSAGE, MESSAGE_DETAIL
from poisonadmin.messages.domain.confirmations import Confirming
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.detail import MessageDetail, get_message
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.lists import ORDERINGS, list_messages
from poisonadmin.web.api.contract import Paged, contract
from poisonadmin.web.api.parameters import (
    CURSOR,
    LIMIT,
    PAGE,
    Parameter,
    boolean,
    choice,
    identifier,
    pattern,
    read_values,
    refuse_empty,
    text,
    time,
)
from poisonadmin.web.api.view import ApiView

RECEIVED_BY = "api"


def _ordering(name: str, text: str) -> str:
    if text in ORDERINGS:
        return text
    raise InvalidFilter(name, f"{name} is one of {', '.join(ORDERINGS)}, not {text[:40]!r}.")


ORDERING = Parameter("ordering", _ordering, {"type": "string", "enum": list(ORDERINGS)}, "Newest first is -id.")
_PAGE = {parameter.name: parameter for parameter in (LIMIT, CURSOR, ORDERING)}
FILTER = (
    choice("state", State, many=True),
    pattern("address", "An address, or a pattern with * (one word) and # (any words)."),
    identifier("group", "A failure group.", many=True),
    choice("reason", Reason, many=True),
    boolean("candidate", "Whether it may have crashed its consumer."),
    choice("confirmation", Confirming, many=True),
    text("error", "Part of its failure group's title or class.", many=True),
    text("conversation_id", many=True),
    text("message_id", many=True),
    text(
        "q",
        "The search box: words and field:value pairs. `header.<name>=…`, `key.<name>=…` are parameters.",
        many=True,
    ),
    time("received_after"),
    time("received_before"),
    time("failed_after"),
    time("failed_before"),
)


class MessageList(ApiView):
    """`/messages/`."""

    @contract(Permission.READ, "messages", {200: Paged(MESSAGE)}, query=(*FILTER, ORDERING, *PAGE), checks_query=False)
    def get(self, request: Request) -> Response:
        """List messages, newest first.

        Any of the values of a repeated parameter may hold; all parameters must. `header.<name>=<value>` compares a
        header, `key.<name>=<value>` a business key. There is no count: see `/stats/`.
        """
        given = dict(request.query_params.lists())
        page = read_values({name: given.pop(name, []) for name in _PAGE}, _PAGE)
        refuse_empty(given)
        found = list_messages(
            parse_filter(given),
            principal=self.principal,
            cursor=page["cursor"],
            limit=page["limit"] or DEFAULT_LIMIT,
            ordering=page["ordering"] or "-id",
        )
        return self.paged(found, MESSAGE)

    @contract(
        Permission.INGEST,
        "messages",
        {201: MESSAGE_DETAIL, 200: MESSAGE_DETAIL},
        raw_body={"application/json": ENVELOPE},
        acts=True,
    )
    def post(self, request: Request) -> Response:
        """Take one message in.

        201 with the message; 200 with the first one when the same (address, message_id) was taken in with the same
        body before; 409 `message_id_conflict` when it was with another body. With `dead_letter` it is not delivered
        but waits for a decision (NDLV, reason `imported`).
        """
        if request.content_type.split(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaType(request.content_type)
        envelope = parse_line(request._request.body)  # noqa: SLF001  (strict JSON, which REST framework does not read)
        accepted = accept.accept(envelope, principal=self.principal, received_by=RECEIVED_BY)
        response = Response(
            MESSAGE_DETAIL.render(get_message(accepted.id, principal=self.reader)),
            status=201 if accepted.created else 200,
        )
        response["Location"] = f"{request.path}{accepted.id}/"
        return response


class MessageOne(ApiView):
    """`/messages/{id}/`."""

    @contract(Permission.READ, "messages", {200: MESSAGE_DETAIL})
    def get(self, request: Request, message_id: int) -> HttpResponseBase:
        """Show a message. Its ETag is what decisions take as If-Match."""
        return shown(get_message(message_id, principal=self.principal))


def shown(message: MessageDetail) -> Response:
    """Return a message with its ETag."""
    response = Response(MESSAGE_DETAIL.render(message))
    response["ETag"] = message.etag
    return response
