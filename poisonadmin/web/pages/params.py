"""Fields for what an action is told besides which messages it is for (operations/domain/params.py)."""

from collections.abc import Iterable, Mapping
from typing import Any

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.access import OutOfScope
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_address
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.web.pages.forms import TextField, texts_by_line

# The fields that ask for a parameter. A whole payload is edited on the page of its message.
FIELDS_OF: dict[str, tuple[str, ...]] = {
    "address": ("address",),
    "json_patch": ("json_patch",),
    "headers": ("headers_set", "headers_remove"),
    "payload": (),
}
PARAM_FIELDS = tuple(name for names in FIELDS_OF.values() for name in names)
# How an operation's parameters are called where they are shown.
PARAM_WORDS = {
    "address": "To the address",
    "json_patch": "JSON Patch",
    "headers": "Headers",
    "payload_bytes": "Payload in bytes",
}
MAX_PATCH_CHARS = 100_000


def address_field() -> TextField:
    """Return the field for the address that messages are redirected to."""
    return TextField(
        "Deliver to the address",
        read=validate_address,
        most=MAX_ADDRESS_CHARS,
        required=True,
        hint="orders.repaired",
        note="It has to deliver somewhere. Its policy applies from now on.",
    )


def json_patch_field() -> TextField:
    """Return the field for a JSON Patch."""
    return TextField(
        "JSON Patch",
        read=lambda text: strict_json.loads(text.encode("utf-8", "backslashreplace")),
        write=lambda value: strict_json.dumps(value).decode(),
        most=MAX_PATCH_CHARS,
        rows=6,
        hint='[{"op": "replace", "path": "/currency", "value": "EUR"}]',
        note="Operations of RFC 6902: add, remove, replace, move, copy, test. A message where one fails is left alone.",
    )


def headers_set_field() -> TextField:
    """Return the field for headers to be set."""
    return TextField(
        "Set headers",
        read=_headers,
        write=lambda value: "\n".join(f"{name}: {text}" for name, text in value.items()),
        rows=2,
        hint="X-Tenant: eu",
        note="One a line, as Name: value.",
    )


def headers_remove_field() -> TextField:
    """Return the field for headers to be removed."""
    return TextField("Remove headers", read=texts_by_line, write="\n".join, rows=2, note="One name a line.")


def params_of(typed: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the parameters that were typed into these fields."""
    given = {name: typed[name] for name in fields if typed.get(name)}
    headers = {name.removeprefix("headers_"): given.pop(name) for name in FIELDS_OF["headers"] if name in given}
    return given | ({"headers": headers} if headers else {})


def field_of(error: InvalidField | OutOfScope) -> str:
    """Return the name of the field that an error of a parameter is about."""
    name = error.field.removeprefix("params.").split(".")[0]
    return FIELDS_OF[name][0] if FIELDS_OF.get(name) else name


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in texts_by_line(text):
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InvalidField("headers", f"{line[:80]!r} is not a header, such as X-Tenant: eu.")
        found[name.strip()] = value.strip()
    return found
