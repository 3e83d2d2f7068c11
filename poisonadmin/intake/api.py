"""Batches of messages: lines of JSON."""

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.intake.commands import batch
from poisonadmin.web.api.contract import contract
from poisonadmin.web.api.rendering import chunks_of, file_of
from poisonadmin.web.api.routes import route
from poisonadmin.web.api.shape import JsonSchema
from poisonadmin.web.api.view import ApiView

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


class MessageBatch(ApiView):
    """`/messages/batch/`."""

    @contract(
        Permission.INGEST,
        "messages",
        {202: BATCH},
        raw_body={kind: {"type": "string"} for kind in NDJSON},
        acts=True,
        is_streamed=True,
    )
    def post(self) -> Response:
        """Take many messages in: one JSON object a line, each as for a single message.

        Good lines are kept; bad ones are set aside, and the first thousand are named in the answer.
        """
        if self.request.content_type.split(";")[0].strip().lower() not in NDJSON:
            raise UnsupportedMediaType(self.request.content_type)
        upload = file_of(self.request._request)  # noqa: SLF001  (a parser would hold all of it in memory)
        result = batch.accept_stream(chunks_of(upload), principal=self.principal)
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
