"""Batches of messages: lines of JSON."""

from collections import Counter

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.intake.commands import batch
from poisonadmin.web.api.contract import contract
from poisonadmin.web.api.rendering import chunks_of, file_of
from poisonadmin.web.api.shape import JsonSchema
from poisonadmin.web.api.view import ApiView, route

NAMED_KINDS = 5
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
BATCH: JsonSchema = {
    "type": "object",
    "properties": {
        "batch": {"type": "string"},
        "accepted": {"type": "integer"},
        "duplicates": {"type": "integer"},
        "rejected_count": {"type": "integer", "description": "`rejected` names the first thousand of these."},
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "line": {"type": "integer"},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
                "required": ["line", "code", "detail"],
            },
        },
    },
    "required": ["batch", "accepted", "duplicates", "rejected_count", "rejected"],
}


LINES: JsonSchema = {
    "type": "string",
    "description": "One JSON object a line, UTF-8, each as the body of `POST /messages/`; lines end in `\\n`.",
    "example": '{"address": "orders.eu", "message_id": "1", "payload": {"total": 12}}\n'
    '{"address": "orders.eu", "message_id": "2", "payload": {"total": 7}}\n',
}


class NothingAccepted(PoisonAdminError):
    """Raised when a batch has lines and every one was set aside; the text names the mistakes and counts each."""

    code = "nothing_accepted"
    status = 422

    def __init__(self, result: batch.BatchResult) -> None:
        kinds = Counter((line.code, line.detail) for line in result.rejected)
        lines = "The line was not" if result.rejected_count == 1 else f"None of the {result.rejected_count:,} lines was"
        named = len(result.rejected)
        of = f" Of the first {named:,}:" if result.rejected_count > named else ""
        mistakes = [f" {n:,} x {code}: {detail}" for (code, detail), n in kinds.most_common(NAMED_KINDS)]
        more = f" And {len(kinds) - NAMED_KINDS:,} other mistakes." if len(kinds) > NAMED_KINDS else ""
        super().__init__(f"{lines} accepted; set aside as {result.batch}.{of}{''.join(mistakes)}{more}")


class MessageBatch(ApiView):
    """`/messages/batch/`."""

    @contract(
        Permission.INGEST,
        "messages",
        {202: BATCH},
        raw_body=dict.fromkeys(NDJSON, LINES),
        acts=True,
        is_streamed=True,
    )
    def post(self) -> Response:
        """Take many messages in: one JSON object a line, each as for a single message.

        Good lines are kept; bad ones are set aside, and the first thousand are named in the answer. Where every line
        is bad, the answer is 422 `nothing_accepted`, which says what is wrong with them and how often.
        """
        if self.request.content_type.split(";")[0].strip().lower() not in NDJSON:
            raise UnsupportedMediaType(self.request.content_type)
        upload = file_of(self.request._request)  # noqa: SLF001  (a parser would hold all of it in memory)
        result = batch.accept_stream(chunks_of(upload), principal=self.principal, renew=self.renew)
        if result.rejected_count and not result.accepted + result.duplicates:
            raise NothingAccepted(result)
        return Response(
            {
                "batch": result.batch,
                "accepted": result.accepted,
                "duplicates": result.duplicates,
                "rejected_count": result.rejected_count,
                "rejected": [{"line": line.line, "code": line.code, "detail": line.detail} for line in result.rejected],
            },
            status=202,
        )


urlpatterns = [
    route("messages/batch/", MessageBatch, name="api-message-batch"),
]
