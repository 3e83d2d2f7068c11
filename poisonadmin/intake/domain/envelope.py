"""The envelope: a message as it comes in. API, batch and Spark ingest all read it here and nowhere else."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.strict_json import InvalidJson
from poisonadmin.messages.domain import envelope_fields as read
from poisonadmin.messages.domain.dead_letter import DeadLetter, parse_dead_letter
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
BYTES = "application/octet-stream"

FIELDS = frozenset(
    {
        "address",
        "message_id",
        "payload",
        "payload_base64",
        "content_type",
        "headers",
        "conversation_id",
        "bookmark",
        "expires_at",
        "dead_letter",
    }
)
_TIME = {"type": "string", "format": "date-time", "nullable": True}


@dataclass(frozen=True, slots=True)
class MessageEnvelope:
    """A message as its producer handed it in. `message_id` None: the caller gives it one."""

    address: str
    message_id: str | None
    payload: bytes
    content_type: str
    headers: dict[str, str]
    conversation_id: str | None
    bookmark: str | None
    expires_at: datetime | None
    dead_letter: DeadLetter | None


def parse_line(raw: bytes) -> MessageEnvelope:
    """Return the envelope in one line of NDJSON, or in one request body.

    Errors: `InvalidEnvelope`; besides the codes of `parse_envelope`, with `field` None: `line_too_long`,
    `invalid_utf8`, `invalid_json`, `duplicate_key`, `nesting_too_deep`, `too_many_values`, `invalid_number`.

    >>> parse_line(b'{"address": "orders.eu", "message_id": "7", "payload": {"id": 7, "price": 1.10}}').payload
    b'{"id":7,"price":1.10}'
    """
    if len(raw) > LIMITS.line_bytes:
        detail = f"A line may have at most {LIMITS.line_bytes} bytes, this one has {len(raw)}."
        raise InvalidEnvelope("line_too_long", None, detail)
    try:
        fields = strict_json.loads(raw, keeps_numbers=True, most_values=LIMITS.json_values)
    except InvalidJson as error:
        raise InvalidEnvelope(error.code, None, error.detail) from None
    return parse_envelope(fields)


def parse_envelope(fields: Mapping[str, Any]) -> MessageEnvelope:
    """Return the envelope that `fields` describe, in the shape of `POST /api/v1/messages/`.

    `payload` is a string (its UTF-8 bytes) or any other JSON value (its compact text, numbers as they are written);
    `payload_base64` is for bytes.
    The content type defaults to plain text, JSON or bytes accordingly. Null stands for an absent optional field.

    Errors: `InvalidEnvelope` with code `not_an_object`, `unknown_field`, `missing_field`, `invalid_address`,
    `invalid_message_id`, `invalid_conversation_id`, `invalid_bookmark`, `invalid_content_type`, `invalid_headers`,
    `headers_too_large`, `invalid_time`, `payload_conflict`, `invalid_base64`, `invalid_unicode`, `invalid_json`,
    `nesting_too_deep`, `payload_too_large`, `invalid_dead_letter`.
    """
    if not isinstance(fields, Mapping):
        raise InvalidEnvelope("not_an_object", None, "A message must be a JSON object.")
    read.refuse_unknown(fields, FIELDS)
    if fields.get("address") is None:
        raise InvalidEnvelope("missing_field", "address", "A message needs an address.")
    payload, default_type = _payload(fields)
    return MessageEnvelope(
        address=read.address(fields, "address"),
        message_id=read.printable(fields, "message_id", LIMITS.message_id_chars),
        payload=payload,
        content_type=_content_type(fields) or default_type,
        headers=read.headers(fields),
        conversation_id=read.printable(fields, "conversation_id", LIMITS.conversation_id_chars),
        bookmark=read.printable(fields, "bookmark", LIMITS.bookmark_chars),
        expires_at=read.instant(fields, "expires_at"),
        dead_letter=parse_dead_letter(fields),
    )


def _content_type(fields: Mapping[str, Any]) -> str | None:
    content_type = read.printable(fields, "content_type", LIMITS.content_type_chars)
    if content_type is not None and not content_type.isascii():
        raise InvalidEnvelope("invalid_content_type", "content_type", "content_type must be ASCII.")
    return content_type


def _payload(fields: Mapping[str, Any]) -> tuple[bytes, str]:
    encoded = fields.get("payload_base64")
    if encoded is not None:
        if fields.get("payload") is not None:
            raise InvalidEnvelope("payload_conflict", "payload", "Give payload or payload_base64, not both.")
        return _within_limit(_decoded(encoded)), BYTES
    if "payload" not in fields:
        raise InvalidEnvelope("missing_field", "payload", "A message needs a payload or a payload_base64.")
    payload = fields["payload"]
    if isinstance(payload, str):
        return _within_limit(_utf8(payload)), TEXT
    try:
        return _within_limit(strict_json.dumps(payload)), JSON
    except InvalidJson as error:
        raise InvalidEnvelope(error.code, "payload", error.detail) from None


def _decoded(encoded: object) -> bytes:
    if not isinstance(encoded, str):
        raise InvalidEnvelope("invalid_base64", "payload_base64", "payload_base64 must be a string.")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidEnvelope("invalid_base64", "payload_base64", "payload_base64 is not base64.") from None


def _utf8(payload: str) -> bytes:
    try:
        return payload.encode("utf-8")
    except UnicodeEncodeError:
        detail = "payload holds a lone surrogate, which no UTF-8 text can; send its bytes as payload_base64."
        raise InvalidEnvelope("invalid_unicode", "payload", detail) from None


def _within_limit(payload: bytes) -> bytes:
    if len(payload) > LIMITS.payload_bytes:
        detail = f"A payload may have at most {LIMITS.payload_bytes} bytes, this one has {len(payload)}."
        raise InvalidEnvelope("payload_too_large", "payload", detail)
    return payload


def _text(most: int, about: str = "") -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": about, "nullable": True}


def _described(about: str, most: int | None = None) -> dict[str, Any]:
    return {"type": "string", "description": about, "nullable": True} | ({"maxLength": most} if most else {})


# What no word of an address holds: dots, wildcards, spaces and controls. It may be in any script.
_WORD = r"[^\s.*#\x00-\x20\x7f-\xa0\xad]+"
ENVELOPE: dict[str, Any] = {
    "type": "object",
    "required": ["address"],
    "additionalProperties": False,
    "properties": {
        "address": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "pattern": f"^{_WORD}(\\.{_WORD})*$",
            "example": "orders.eu.created",
            "description": "Words between dots: any printable Unicode characters but spaces, `*` and `#`.",
        },
        "payload": {"description": "A string (its UTF-8 bytes) or any other JSON value (its text, without blanks)."},
        "payload_base64": {"type": "string", "format": "byte", "description": "Instead of payload, for bytes."},
        "content_type": _text(LIMITS.content_type_chars),
        "headers": {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True},
        "message_id": _text(LIMITS.message_id_chars, "Unique on its address; one is made where it is missing."),
        "conversation_id": _text(LIMITS.conversation_id_chars),
        "bookmark": _text(LIMITS.bookmark_chars),
        "expires_at": _TIME,
        "dead_letter": {
            "type": "object",
            "nullable": True,
            "additionalProperties": False,
            "description": "Makes it a dead letter handed in: NDLV at once.",
            "properties": {
                "reason": _described("Why it was given up."),
                "exception_class": _described("As the other system names it."),
                "cause_class": _described("Of the exception that it was thrown for; groups are made by it."),
                "exception_message": _described(""),
                "stack": _described(""),
                "original_address": _described("Where it was before.", 255),
                "failed_at": _TIME,
                "delivery_count": {"type": "integer", "minimum": 0, "nullable": True},
            },
        },
    },
}
