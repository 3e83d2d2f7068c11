"""What `POST /messages/` takes, for the OpenAPI document; the checks themselves are domain.envelope's."""

from typing import Any

from poisonadmin.intake.domain.envelope_fields import LIMITS


def _text(most: int, about: str = "") -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": about, "nullable": True}


def _described(about: str, most: int | None = None) -> dict[str, Any]:
    return {"type": "string", "description": about, "nullable": True} | ({"maxLength": most} if most else {})


_TIME = {"type": "string", "format": "date-time", "nullable": True}

ENVELOPE: dict[str, Any] = {
    "type": "object",
    "required": ["address"],
    "additionalProperties": False,
    "properties": {
        "address": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "pattern": "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$",
            "example": "orders.eu.created",
            "description": "Words between dots; any printable characters but spaces and wildcards.",
        },
        "payload": {"description": "A string (its UTF-8 bytes) or any other JSON value (its compact text)."},
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
