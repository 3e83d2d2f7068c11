"""A change of payloads and headers, applied to one message after the other: by the operation, and by its preview."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException, resolve_pointer

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.domain.strict_json import InvalidJson, Number
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.queries import refusals
from poisonadmin.decisions.queries.refusals import OVERSIZED
from poisonadmin.intake.domain.staged_rows import headers_json
from poisonadmin.messages.domain import envelope_fields
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope

NOT_JSON = "not_json"
PATCH_FAILED = "patch_failed"
TOO_LARGE_TO_PATCH = "too_large_to_patch"
UNCHANGED = "unchanged"
HEADERS_TOO_LARGE = "headers_too_large"

# A larger payload is not parsed, a larger result not made.
MAX_PATCHED_BYTES = 1024 * 1024
MAX_RESULT_BYTES = 4 * 1024 * 1024
# `copy` can double a document each time. Of all operations on a message together: a second's work.
MAX_COPIED_VALUES = 100_000
MAX_DIFF_LINES = 2_000
MAX_DETAIL_CHARS = 255


class NotChanged(Exception):
    """Raised when a change does not apply to a message; `code` says why, `detail` more of it."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = None if detail is None else detail[:MAX_DETAIL_CHARS]


@dataclass(frozen=True)
class MessageContent:
    """The content of a message, as `body` has it. `payload` None: it is larger than previews read."""

    payload: bytes | None
    headers: bytes
    transport: bytes | None = None


class Changed(NamedTuple):
    """The content of a message after a change."""

    payload: bytes
    headers: bytes
    transport: bytes | None


@dataclass(frozen=True)
class Changeable:
    """A message to be changed: what it holds, and what its return address, `target`, takes at most."""

    id: int
    address: str
    content_type: str
    payload_bytes: int
    content: MessageContent
    target: str
    most_bytes: int


_READ = partial(
    Sql,
    """
SELECT message.id, address.name, envelope.content_type, envelope.payload_bytes,
       CASE WHEN envelope.payload_bytes <= {most} THEN body.payload END, body.headers,
       body.transport, back.name, back.max_payload_bytes
FROM message {joins} JOIN body ON body.id = message.id
WHERE message.id = ANY({ids}) ORDER BY message.id
""",
)


def read(ids: Sequence[int]) -> list[Changeable]:
    """Return the messages with what they hold, all of it in memory."""
    read = _READ(most=MAX_PATCHED_BYTES, joins=refusals.joins(OperationAction.PATCH), ids=list(ids))
    return [
        Changeable(
            message_id,
            address,
            content_type,
            size,
            MessageContent(_bytes(payload), bytes(headers), _bytes(transport)),
            target,
            most,
        )
        for message_id, address, content_type, size, payload, headers, transport, target, most in fetch_rows(read)
    ]


def _bytes(value: memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


class PayloadChange:
    """The change that the parameters of a PATCH describe (decisions/operations/domain/params.py)."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        raw: bytes = strict_json.dumps(params.get("json_patch", []))
        self._patch_bytes: int = len(raw)
        operations = strict_json.loads(raw, exact=True)
        self._operations = [(one, JsonPatch([one])) for one in operations]
        text = params.get("payload")
        self._payload: bytes | None = None if text is None else text.encode()
        headers = params.get("headers", {})
        self._set: Mapping[str, str] = headers.get("set", {})
        self._remove = {name.lower() for name in headers.get("remove", ())}

    @property
    def cost_bytes(self) -> int:
        """The cost of a change in bytes of payload: so many take about as long to parse and write."""
        copies = len([1 for operation, _ in self._operations if operation["op"] == "copy"])
        return 1024 + 8 * self._patch_bytes + 256 * 1024 * copies

    def apply(self, content: MessageContent, *, target: str, most_bytes: int) -> Changed:
        """Return what the message holds after the change; `most_bytes`: what the address `target` takes.

        Errors: `NotChanged`.
        """
        headers = self._headers_after(content)
        payload = self._payload_after(content)
        if (payload, headers) == (content.payload, content.headers):
            raise NotChanged(UNCHANGED)
        if len(payload) > most_bytes:
            raise NotChanged(OVERSIZED, target)
        return Changed(payload, headers, self._transport_after(content))

    def _payload_after(self, content: MessageContent) -> bytes:
        if self._payload is not None:
            return self._payload
        if content.payload is None:
            raise NotChanged(TOO_LARGE_TO_PATCH)
        return self._patched(content.payload) if self._operations else content.payload

    def _patched(self, payload: bytes) -> bytes:
        is_ascii = payload.isascii()
        try:
            document = strict_json.loads(payload, exact=True, most_values=len(payload))
            before = strict_json.dumps_exact(document, most_bytes=MAX_RESULT_BYTES, is_ascii=is_ascii)
        except InvalidJson as error:
            raise NotChanged(NOT_JSON, error.code) from None
        left = MAX_COPIED_VALUES
        for number, (operation, patch) in enumerate(self._operations, start=1):
            where = f"operation {number}: {operation['op']} {operation['path']}"
            try:
                if operation["op"] == "copy":
                    left -= _values_in(resolve_pointer(document, operation["from"]), most=left + 1)
                    if left < 0:
                        raise NotChanged(TOO_LARGE_TO_PATCH, where)
                document = patch.apply(document, in_place=True)
            except (JsonPatchException, JsonPointerException, RecursionError):
                raise NotChanged(PATCH_FAILED, where) from None
        try:
            after = strict_json.dumps_exact(document, most_bytes=MAX_RESULT_BYTES, is_ascii=is_ascii)
        except InvalidJson as error:
            raise NotChanged(TOO_LARGE_TO_PATCH, error.code) from None
        # Spaces between members are no change.
        return payload if after == before else after

    def _headers_after(self, content: MessageContent) -> bytes:
        if not (self._set or self._remove):
            return content.headers
        gone = self._remove | {name.lower() for name in self._set}
        kept = {name: text for name, text in _object(content.headers).items() if name.lower() not in gone}
        try:
            return headers_json(envelope_fields.headers({"headers": kept | dict(self._set)}))
        except InvalidEnvelope as error:
            raise NotChanged(HEADERS_TOO_LARGE, error.code) from None

    def _transport_after(self, content: MessageContent) -> bytes | None:
        """Return what its broker said of the message, with the headers that its typed ones do not know of."""
        if content.transport is None or not (self._set or self._remove):
            return content.transport
        transport = _object(content.transport)
        gone = self._remove | {name.lower() for name in self._set}
        edited = {name: text for name, text in transport.get("edited_headers", {}).items() if name.lower() not in gone}
        edited |= dict.fromkeys(sorted(self._remove)) | dict(self._set)
        return strict_json.dumps(transport | {"edited_headers": edited})


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _values_in(document: Any, *, most: int) -> int:
    """Return how many values a document has, itself included; `most` where it has as many or more."""
    left = [document]
    seen = 0
    while left and seen + len(left) < most:
        one = left.pop()
        seen += 1
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return min(seen + len(left), most)


def masked_content(content: MessageContent, masks: Masks) -> MessageContent:
    """Return the content as a reader may see it."""
    if not masks:
        return content
    payload = None if content.payload is None else masks.body(content.payload)
    return MessageContent(payload, masks.header_bytes(content.headers))


def diff(before: MessageContent, after: MessageContent) -> list[str] | None:
    """Return the lines of a unified diff of headers and payload, JSON a member a line; None where there is too much."""
    sides = [_lines(before), _lines(after)]
    if any(side is None or len(side) > MAX_DIFF_LINES for side in sides):
        return None
    was, now = (side or [] for side in sides)
    return list(islice(difflib.unified_diff(was, now, "before", "after", lineterm=""), MAX_DIFF_LINES))


def _lines(content: MessageContent) -> list[str] | None:
    if (raw := content.payload) is None:
        return None
    head = [f"{name}: {text}" for name, text in sorted(_object(content.headers).items())]
    try:
        body = list(_indented(strict_json.loads(raw, exact=True, most_values=len(raw)), "", ""))
    except InvalidJson:
        try:
            body = raw.decode("utf-8").splitlines()
        except UnicodeDecodeError:
            return None
    return [*head, "", *body]


def _indented(value: Any, indent: str, before: str) -> Iterator[str]:
    """Yield the lines of a JSON value; `before`: what stands in front of it on its line."""
    if isinstance(value, dict) and value:
        members = [(f"{json.dumps(key, ensure_ascii=False)}: ", member) for key, member in value.items()]
        brackets = "{}"
    elif isinstance(value, list) and value:
        members, brackets = [("", member) for member in value], "[]"
    else:
        shown = value.text if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)
        yield f"{indent}{before}{shown}"
        return
    yield f"{indent}{before}{brackets[0]}"
    for key, member in members:
        yield from _indented(member, f"{indent}  ", key)
    yield f"{indent}{brackets[1]}"
