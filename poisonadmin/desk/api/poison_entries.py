"""The poison list: read, reported to, released from; and the heartbeats of those who follow it."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.decisions.operations.commands.releases import release_bookmark
from poisonadmin.intake.domain.envelope import MessageEnvelope, parse_envelope
from poisonadmin.messages.domain import envelope_fields
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope
from poisonadmin.messages.domain.states import State
from poisonadmin.poison_list import commands
from poisonadmin.poison_list.queries.entries import EntryRow, get_entry, list_entries
from poisonadmin.web.api.contract import (
    PAGE,
    JsonObject,
    Paged,
    ReasonInput,
    StrictSerializer,
    Text,
    boolean,
    contract,
    text,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

POISON_ENTRY = Shape("PoisonEntry", EntryRow, kinds={"message_state": State | None})
MAX_PAYLOAD_BYTES = 256 * 1024
MAX_WHY_CHARS = 4096
MAX_NAME_CHARS = 100
MAX_SOURCE_CHARS = 255
_PAYLOAD = ("payload", "payload_base64", "content_type", "headers")


class NameText(Text):
    """A text whose every character counts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)


class ReportInput(StrictSerializer):
    """A consumer's report of a message that it could not handle, and why. A payload has at most 256 kB."""

    source = NameText(max_length=MAX_SOURCE_CHARS)  # type: ignore[assignment]  # a field of that name, not the field's source
    bookmark = NameText(max_length=LIMITS.bookmark_chars)
    why = NameText(allow_blank=True)
    fatal = serializers.BooleanField(default=False)
    crash_limit = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=100)
    consumer = NameText(required=False, allow_null=True, max_length=MAX_NAME_CHARS)
    payload = serializers.JSONField(required=False, allow_null=True)
    payload_base64 = NameText(required=False, allow_null=True)
    content_type = NameText(required=False, allow_null=True, max_length=LIMITS.content_type_chars)
    headers = JsonObject(required=False, allow_null=True)
    exception_class = NameText(required=False, allow_null=True)
    stack = NameText(required=False, allow_null=True)


class HeartbeatInput(StrictSerializer):
    """Which source it consumes, and what it is handling now."""

    source = NameText(max_length=MAX_SOURCE_CHARS)  # type: ignore[assignment]  # a field of that name, not the field's source
    version = NameText(required=False, allow_null=True, max_length=MAX_NAME_CHARS)
    host = NameText(required=False, default="", allow_blank=True, max_length=255)
    pid = serializers.IntegerField(required=False, default=0, min_value=0, max_value=2**31 - 1)
    bookmark = NameText(required=False, allow_null=True, max_length=LIMITS.bookmark_chars)
    ended = serializers.BooleanField(default=False)


class PoisonList(ApiView):
    """`/poison-list/`."""

    @contract(
        Permission.READ,
        "poison list",
        {200: Paged(POISON_ENTRY)},
        query=(text("source"), boolean("listed", "Only those that are listed now, or are not."), *PAGE),
    )
    def get(self) -> Response:
        """List the bookmarks that consumers have reported, newest first."""
        return self.listed(POISON_ENTRY, list_entries, source=self.query["source"], listed=self.query["listed"])

    @contract(Permission.INGEST, "poison list", {200: POISON_ENTRY}, body=ReportInput, acts=True)
    def post(self) -> Response:
        """Report a bookmark that could not be handled; the answer shows whether it is listed now.

        A failure lists it at once (or at the policy's `failures_to_list`); with `fatal`, a crash of the consumer, it is
        counted and listed at `crash_limit` (else the policy's `crashes_to_list`, else 2). Once it is listed, the
        message that waits under this bookmark on the address of the source's name becomes NDLV `listed`; one that came
        with the report and is not there is stored so.
        """
        entry_id = commands.report(_report_of(self.body), principal=self.principal)
        return Response(POISON_ENTRY.render(get_entry(entry_id, principal=self.reader)))


class PoisonEntryRelease(ApiView):
    """`/poison-list/{id}/release/`."""

    @contract(Permission.DECIDE, "poison list", {200: POISON_ENTRY, 202: POISON_ENTRY}, body=ReasonInput, acts=True)
    def post(self, entry_id: int) -> Response:
        """Take a bookmark off the list: consumers handle it again, and its counts start anew.

        202: the messages that it stopped need a sign-off. `Location` is the operation that waits; nothing was done.
        """
        awaits = release_bookmark(entry_id, principal=self.principal, reason=self.body["reason"])
        return self.accepted(Response(POISON_ENTRY.render(get_entry(entry_id, principal=self.reader))), awaits)


class ConsumerHeartbeat(ApiView):
    """`/nodes/{name}/heartbeat/`."""

    @contract(Permission.INGEST, "poison list", {204: None}, body=HeartbeatInput)
    def post(self, name: str) -> Response:
        """Report that a consumer is alive; send it every five seconds."""
        body = self.body
        known = ("version", "host", "pid", "bookmark", "ended")
        beat = commands.Heartbeat(
            name=_printable({"name": name}, "name", MAX_NAME_CHARS),
            source=_printable({"poison_source": body["source"]}, "poison_source", MAX_SOURCE_CHARS),
            **{field: body[field] for field in known if body.get(field) is not None},
        )
        commands.record_heartbeat(beat, principal=self.principal)
        return Response(status=204)


def _report_of(body: Mapping[str, Any]) -> commands.Report:
    why = envelope_fields.storable(body["why"][:MAX_WHY_CHARS])
    return commands.Report(
        source=_printable({"poison_source": body["source"]}, "poison_source", MAX_SOURCE_CHARS),
        bookmark=_printable(body, "bookmark", LIMITS.bookmark_chars),
        why=why,
        fatal=body["fatal"],
        crash_limit=body.get("crash_limit"),
        envelope=_envelope_of(body, why),
        consumer=body.get("consumer"),
    )


def _envelope_of(body: Mapping[str, Any], why: str) -> MessageEnvelope | None:
    """Return the message that came with the report, its failure as a dead letter; None where none came.

    Errors: `InvalidEnvelope`, as for any message, and for a payload of more than 256 kB.
    """
    given = {name: body[name] for name in _PAYLOAD if body.get(name) is not None}
    if "payload" not in given and "payload_base64" not in given:
        return None
    dead_letter = {
        "reason": why,
        "exception_class": body.get("exception_class") or ("ConsumerCrashed" if body["fatal"] else "ConsumerFailed"),
        "exception_message": why,
        "stack": body.get("stack"),
    }
    bookmark = body["bookmark"]
    message = {"address": body["source"], "message_id": bookmark, "bookmark": bookmark, "dead_letter": dead_letter}
    envelope = parse_envelope(message | given)
    if len(envelope.payload) > MAX_PAYLOAD_BYTES:
        raise InvalidEnvelope(
            "payload_too_large", "payload", f"A report's payload may have at most {MAX_PAYLOAD_BYTES} bytes."
        )
    return envelope


def _printable(fields: Mapping[str, Any], field: str, most: int) -> str:
    found = envelope_fields.printable(fields, field, most)
    assert found is not None
    return found


urlpatterns = [
    route("nodes/<path:name>/heartbeat/", ConsumerHeartbeat, name="api-heartbeat"),
    route("poison-list/", PoisonList, name="api-poison-list"),
    route("poison-list/<id:entry_id>/release/", PoisonEntryRelease, name="api-poison-release"),
]
