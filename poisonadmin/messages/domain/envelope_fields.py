"""Checks of the fields of an envelope, and their limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError


@dataclass(frozen=True)
class EnvelopeLimits:
    """The limits of an envelope; `headers_bytes` counts names and values in UTF-8."""

    payload_bytes: int = 64 * 1024 * 1024
    headers_bytes: int = 64 * 1024
    headers_count: int = 100
    header_name_chars: int = 255
    message_id_chars: int = 255
    conversation_id_chars: int = 255
    bookmark_chars: int = 255
    content_type_chars: int = 255
    line_bytes: int = 128 * 1024 * 1024  # a payload of the greatest size, in base64 or with its quotes escaped
    json_values: int = 1_000_000  # of a line; a payload with more is sent as a string or in base64
    # What describes a failure is cut to these rather than refused.
    reason_chars: int = 255
    exception_class_chars: int = 255
    exception_message_chars: int = 4096
    stack_chars: int = 64 * 1024


LIMITS = EnvelopeLimits()

# RFC 3339. datetime.fromisoformat alone would also take week dates and times without a separator.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)?")


class InvalidEnvelope(PoisonAdminError):
    """Raised when what came in is not a message; `code` says in which way, `field` where (None: the whole line)."""

    def __init__(self, code: str, field: str | None, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.field = field
        self.status = 413 if code in {"payload_too_large", "line_too_long"} else 400


def refuse_unknown(fields: Mapping[str, object], known: frozenset[str], *, inside: str = "") -> None:
    """Do nothing when all `fields` are known; raise `InvalidEnvelope` `unknown_field` naming the first that is not."""
    for field in fields:
        if field not in known:
            name = f"{inside}{field}"[:100]
            raise InvalidEnvelope(
                "unknown_field",
                name,
                f"{name!r} is not a field of a message. {_known(known, inside)}",
            )


def _known(known: frozenset[str], inside: str) -> str:
    of = f" of {inside.removesuffix('.')}" if inside else ""
    return f"Fields{of} are {', '.join(sorted(known))}."


def address(fields: Mapping[str, Any], field: str, *, name: str | None = None) -> str:
    """Return the address in `field`; raise `InvalidEnvelope` `invalid_address` when it is none."""
    try:
        return validate_address(fields[field])
    except InvalidAddress as error:
        raise InvalidEnvelope("invalid_address", name or field, error.detail) from None


def printable(fields: Mapping[str, Any], field: str, max_chars: int) -> str | None:
    """Return the text in `field`, None where it is absent or null; raise `InvalidEnvelope` `invalid_<field>`."""
    value = fields.get(field)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= max_chars or not value.isprintable():
        raise InvalidEnvelope(
            f"invalid_{field}", field, f"{field} must be a printable text of 1 to {max_chars} characters."
        )
    return value


def instant(fields: Mapping[str, Any], field: str, *, name: str | None = None) -> datetime | None:
    """Return the time in `field` in UTC, None where it is absent or null.

    Errors: `InvalidEnvelope` `invalid_time` unless it is RFC 3339 with its offset, or an aware datetime.
    """
    value = fields.get(field)
    if value is None:
        return None
    wrong = InvalidEnvelope(
        "invalid_time", name or field, "must be a time with its offset, such as 2026-01-31T12:00:00Z."
    )
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError:
            raise wrong from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise wrong
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise wrong from None


def described(fields: Mapping[str, Any], field: str, max_chars: int) -> str | None:
    """Return a text that only people read, cut to `max_chars`, its NULs and lone surrogates replaced.

    Errors: `InvalidEnvelope` `invalid_dead_letter` when it is not a text.
    """
    value = fields.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEnvelope("invalid_dead_letter", f"dead_letter.{field}", f"{field} must be a string.")
    return storable(value[:max_chars])


def storable(text: str) -> str:
    """Return `text` as PostgreSQL can hold it: NUL becomes U+FFFD, a lone surrogate `?`."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def headers(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers, in the order given; raise `InvalidEnvelope` `invalid_headers` or `headers_too_large`."""
    found = fields.get("headers")
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidEnvelope("invalid_headers", "headers", "headers must be an object of strings.")
    if len(found) > LIMITS.headers_count:
        detail = f"There may be at most {LIMITS.headers_count} headers, there are {len(found)}."
        raise InvalidEnvelope("headers_too_large", "headers", detail)
    size = 0
    for name, value in found.items():
        size += _header_bytes(name, value)
    if size > LIMITS.headers_bytes:
        detail = f"The headers may have at most {LIMITS.headers_bytes} bytes, they have {size}."
        raise InvalidEnvelope("headers_too_large", "headers", detail)
    return dict(found)


def _header_bytes(name: object, value: object) -> int:
    if not isinstance(name, str) or not 1 <= len(name) <= LIMITS.header_name_chars or not name.isprintable():
        detail = f"A header's name must be a printable text of 1 to {LIMITS.header_name_chars} characters."
        raise InvalidEnvelope("invalid_headers", "headers", detail)
    where = f"headers.{name}"[:100]
    if not isinstance(value, str):
        raise InvalidEnvelope("invalid_headers", where, "A header's value must be a string.")
    if "\0" in value:
        raise InvalidEnvelope("invalid_headers", where, "A header's value must not hold NUL.")
    try:
        return len(name.encode("utf-8")) + len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidEnvelope("invalid_headers", where, "A header's value holds a lone surrogate.") from None
