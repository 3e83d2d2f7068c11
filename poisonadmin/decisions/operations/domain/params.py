"""Parameters of actions: checked once, and kept with the operation."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.strict_json import InvalidJson
from poisonadmin.decisions.operations.domain.actions import ACTIONS, OperationAction
from poisonadmin.destinations.domain.http_config import is_reserved
from poisonadmin.groups.domain.annotations import MAX_TAGS_OF_A_MESSAGE, InvalidAnnotation, checked_note, checked_tags
from poisonadmin.messages.domain.envelope_fields import LIMITS

MAX_OWNER_CHARS = 150
MAX_REASON_CHARS = 2000
MAX_PATCH_OPERATIONS = 100
MAX_PATCH_BYTES = 64 * 1024
MAX_HEADER_CHANGES = 50
MAX_HEADER_VALUE_CHARS = 8192
# What a page shows of a payload can be edited there.
MAX_EDITED_BYTES = 256 * 1024

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
# What each operation of RFC 6902 needs beside its path.
_NEEDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": None}


class InvalidOperation(InvalidField):
    """Raised when a field of an operation is invalid; `field` names what is wrong."""

    code = "invalid_operation"


def require_reason(reason: str) -> str:
    """Return a reason that says something; raise InvalidOperation."""
    if not any(one.isalnum() for one in reason) or len(reason) > MAX_REASON_CHARS:
        raise InvalidOperation("reason", f"must be 1 to {MAX_REASON_CHARS} characters, with a letter or a digit.")
    return reason


def may_carry_out(action: OperationAction, principal: Principal) -> bool:
    """Return whether the principal may carry the action out. Who changes payloads has to see them."""
    may_change = action is not OperationAction.PATCH or principal.may(Permission.READ_PAYLOAD)
    return principal.may(Permission.DECIDE) and may_change


def checked_params(action: OperationAction, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of an action as they are kept. Errors: `InvalidOperation`.

    REDIRECT: `address`. PATCH: `json_patch` (RFC 6902) or `payload`, a text that takes the place of the whole payload;
    `headers`: `set`, an object of strings, and `remove`, a list of names. ASSIGN: `owner`, the name of an account, null
    for nobody; `tags`: `add` and `remove`, lists of texts; `note`, a text, null for none.

    >>> checked_params(OperationAction.REDIRECT, {"address": "orders.repaired"})
    {'address': 'orders.repaired'}
    >>> checked_params(OperationAction.PATCH, {"json_patch": [{"op": "remove", "path": "/a"}]})
    {'json_patch': [{'op': 'remove', 'path': '/a'}]}
    """
    known = ACTIONS[action].params
    for name in given or {}:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            raise InvalidOperation(f"params.{name[:100]}", f"is unknown: {action} {takes}.")
    check = _CHECKS.get(action)
    return {} if check is None else check(given or {})


def _redirect(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"address": validate_address(given.get("address", ""))}
    except InvalidAddress as error:
        raise InvalidOperation("params.address", error.detail) from None


def _patch(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise InvalidOperation("params.json_patch", "is required, or headers, or a payload for one message.")
    if "payload" in given and "json_patch" in given:
        raise InvalidOperation("params.payload", "takes the place of the payload; give it or a json_patch.")
    checks = {"json_patch": _json_patch, "payload": _payload, "headers": _headers}
    return {name: checks[name](value) for name, value in given.items()}


def _json_patch(value: Any) -> list[dict[str, Any]]:
    field = "params.json_patch"
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PATCH_OPERATIONS:
        raise InvalidOperation(field, f"must be a list of 1 to {MAX_PATCH_OPERATIONS} operations (RFC 6902).")
    for place, one in enumerate(value):
        _check_patch_operation(f"{field}.{place}", one)
    try:
        size = len(strict_json.dumps(value))
    except InvalidJson as error:
        raise InvalidOperation(field, error.detail) from None
    if size > MAX_PATCH_BYTES:
        raise InvalidOperation(field, f"may have at most {MAX_PATCH_BYTES} bytes, this one has {size}.")
    return value


def _check_patch_operation(field: str, one: Any) -> None:
    op = one.get("op") if isinstance(one, dict) else None
    if not isinstance(op, str) or op not in _NEEDS:
        raise InvalidOperation(field, f"must be an object whose op is one of {', '.join(_NEEDS)}.")
    needed = _NEEDS[op]
    if missing := [name for name in ("path", needed) if name is not None and name not in one]:
        raise InvalidOperation(field, f"{op} needs {missing[0]}.")
    if unknown := set(one) - {"op", "path", needed}:
        raise InvalidOperation(field, f"{op} has no {min(unknown)[:100]}.")
    for name in {"path", "from"} & set(one):
        pointer = one[name]
        if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
            raise InvalidOperation(field, f"its {name} must be a JSON pointer, such as /order/lines/0/sku.")


def _payload(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidOperation("params.payload", "must be a text.")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidOperation("params.payload", "holds a lone surrogate, which no UTF-8 text can.") from None
    if "\0" in value:
        raise InvalidOperation("params.payload", "must not hold NUL.")
    if size > MAX_EDITED_BYTES:
        raise InvalidOperation("params.payload", f"may have at most {MAX_EDITED_BYTES} bytes, this one has {size}.")
    return value


def _headers(value: Any) -> dict[str, Any]:
    field = "params.headers"
    if not isinstance(value, dict) or not value or set(value) - {"set", "remove"}:
        raise InvalidOperation(field, "must be an object with set, an object of strings, or remove, a list of names.")
    to_set, to_remove = value.get("set", {}), value.get("remove", [])
    if not isinstance(to_set, dict) or not isinstance(to_remove, list):
        raise InvalidOperation(field, "set must be an object of strings, remove a list of names.")
    names = [*to_set, *to_remove]
    if not 1 <= len(names) <= MAX_HEADER_CHANGES:
        raise InvalidOperation(field, f"must change 1 to {MAX_HEADER_CHANGES} headers.")
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= LIMITS.header_name_chars or not name.isprintable():
            raise InvalidOperation(field, f"a name must be 1 to {LIMITS.header_name_chars} printable characters.")
        if is_reserved(name):
            raise InvalidOperation(field, f"{name} cannot be changed: each delivery sets it anew.")
    if twice := {name.lower() for name in names if [one.lower() for one in names].count(name.lower()) > 1}:
        raise InvalidOperation(field, f"{min(twice)} is named twice.")
    for name, text in to_set.items():
        if not isinstance(text, str) or len(text) > MAX_HEADER_VALUE_CHARS or not text.isprintable():
            most = f"at most {MAX_HEADER_VALUE_CHARS} printable characters"
            raise InvalidOperation(field, f"the value of {name} must be a text of {most}.")
    return {name: part for name, part in (("set", to_set), ("remove", to_remove)) if part}


def _assign(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise InvalidOperation("params.owner", "choose an owner, tags or a note.")
    checks: dict[str, Callable[[Any], Any]] = {"owner": _owner, "tags": _tags, "note": checked_note}
    try:
        return {name: checks[name](value) for name, value in given.items()}
    except InvalidAnnotation as error:
        field = {"tags": "tags.add"}.get(error.field, error.field)
        raise InvalidOperation(f"params.{field}", error.reason) from None


def _owner(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > MAX_OWNER_CHARS or not value.isprintable()):
        raise InvalidOperation("params.owner", "must be the name of an account, or null for nobody.")
    return value or None


def _tags(value: Any) -> dict[str, list[str]]:
    field = "params.tags"
    if not isinstance(value, dict) or not value or set(value) - {"add", "remove"}:
        raise InvalidOperation(field, "must be an object with add or remove, lists of tags.")
    for name, tags in value.items():
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidOperation(f"{field}.{name}", "must be a list of texts.")
    added = checked_tags(value.get("add", []))
    removed = sorted({tag.strip() for tag in value.get("remove", [])})
    if len(removed) > MAX_TAGS_OF_A_MESSAGE or not all(0 < len(one) <= 50 and one.isprintable() for one in removed):
        most = f"at most {MAX_TAGS_OF_A_MESSAGE} printable texts of 1 to 50 characters"
        raise InvalidOperation(f"{field}.remove", f"must be {most}.")
    if not added and not removed:
        raise InvalidOperation(field, "must name at least one tag.")
    if both := set(added) & set(removed):
        raise InvalidOperation(f"{field}.remove", f"names {min(both)}, which is to be added.")
    return {"add": added, "remove": removed}


_CHECKS: dict[OperationAction, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    OperationAction.REDIRECT: _redirect,
    OperationAction.PATCH: _patch,
    OperationAction.ASSIGN: _assign,
}
