"""The form of a rule: an empty field matches anything, so only what is filled in is a condition."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from poisonadmin.core.domain import strict_json
from poisonadmin.core.queries.filter_values import InvalidFilter, moment
from poisonadmin.rules.commands.table import RuleFields
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import After, Before, Stage
from poisonadmin.rules.pages.condition_formatter import (
    bounds,
    condition_text,
    header_conditions,
    json_conditions,
    range_text,
)
from poisonadmin.rules.queries.rules import RuleRow


@dataclass(frozen=True)
class Column:
    """A column of the table as the form offers it. `kind`: line, lines or box."""

    name: str
    label: str
    hint: str
    kind: str = "line"
    text: str = ""


_BEFORE = (
    Column("address", "Address", "orders.# or orders.*.created; empty: every address"),
    Column("content_type", "Content type", "application/json*"),
    Column("size", "Payload size in bytes", "1048576.. or 0..0"),
    Column("expires_within_ms", "Expires within (ms)", "60000"),
    Column("headers", "Headers, one condition a line", "X-Kind like push*\nX-Trace absent", "lines"),
    Column("json", "JSON fields, one condition a line", "$.amount outside 0..\n$.employee.id missing", "lines"),
    Column("violates", "Violates this JSON Schema (draft 2020-12)", '{"required": ["id"]}', "lines"),
    Column("not_json", "The payload is not JSON", "", "box"),
)
_AFTER = (
    Column("address", "Address", "orders.# or orders.*.created; empty: every address"),
    Column("destination", "Destination", "shop*"),
    Column("exception_class", "Exception class, or its cause's", "*Timeout"),
    Column("message", "Exception message", "*deadlock*"),
    Column("status_code", "HTTP status", "500..599"),
    Column("attempts", "Attempt number", "3.."),
    Column("failures", "Failures, this one included", "3.."),
    Column("tags", "Tags, all of them", "large, push"),
)
COLUMNS = {Stage.BEFORE: _BEFORE, Stage.AFTER: _AFTER}
ACTIONS: dict[Stage, dict[str, str]] = {
    Stage.BEFORE: {
        Before.REJECT: "Reject: NDLV, an administrator decides",
        Before.DISCARD: "Discard: FAIL",
        Before.REDIRECT: "Redirect to another address",
        Before.TAG: "Tag, and deliver",
    },
    Stage.AFTER: {
        After.RETRY: "Retry with another delay",
        After.PARK: "Park now: NDLV",
        After.FAIL: "Give up: FAIL",
        After.REDIRECT: "Redirect to another address",
        After.END_CONVERSATION: "End the conversation",
    },
}
PARTS: dict[Stage, tuple[Column, ...]] = {
    Stage.BEFORE: (
        Column("do_address", "Redirect to", "orders.odd"),
        Column("do_tags", "Tags to put on it", "odd, large"),
    ),
    Stage.AFTER: (
        Column("do_address", "Redirect to", "orders.slow"),
        Column("do_delay_ms", "Retry after (ms)", "60000"),
        Column("do_factor", "Retry after the policy's delay times", "2"),
    ),
}


@dataclass(frozen=True)
class RuleForm:
    """The form as typed; `texts` holds what is not left empty. `version` None: a new rule."""

    stage: Stage
    name: str = ""
    owner: str = ""
    note: str = ""
    ends_at: str = ""
    do: str = ""
    version: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> RuleFields:
        """Return what is to be saved; raise InvalidRule naming the field that cannot be read."""
        match = {name: _READ[name](text) for name, text in self.texts.items() if not name.startswith("do_")}
        action: dict[str, Any] = {"do": self.do}
        for name, text in self.texts.items():
            if name.startswith("do_"):
                action[name.removeprefix("do_")] = _READ[name](text)
        return RuleFields(self.name, match, action, self.note, self.owner or None, _moment(self.ends_at))

    def columns(self) -> list[Column]:
        """Return the columns of its stage with what was typed."""
        return [self._typed(column) for column in COLUMNS[self.stage]]

    def parts(self) -> list[Column]:
        """Return what an action may need with what was typed."""
        return [self._typed(column) for column in PARTS[self.stage]]

    def _typed(self, column: Column) -> Column:
        return Column(column.name, column.label, column.hint, column.kind, self.texts.get(column.name, ""))


def form_of(row: RuleRow) -> RuleForm:
    """Return the form of a rule as it stands."""
    texts = {name: _text(name, value) for name, value in row.match.items()}
    texts |= {f"do_{name}": _text(name, value) for name, value in row.action.items() if name != "do"}
    ends_at = row.ends_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") if row.ends_at else ""
    stage = Stage(row.stage)
    return RuleForm(stage, row.name, row.owner, row.note, ends_at, row.action["do"], row.version, texts)


def read_form(stage: Stage, posted: Mapping[str, Any]) -> RuleForm:
    """Return the form as it was sent."""
    names = [column.name for column in (*COLUMNS[stage], *PARTS[stage])]
    texts = {name: text for name in names if (text := _clean(posted.get(name)))}
    version = _clean(posted.get("version"))
    return RuleForm(
        stage=stage,
        name=_clean(posted.get("name")),
        owner=_clean(posted.get("owner")),
        note=_clean(posted.get("note")),
        ends_at=_clean(posted.get("ends_at")),
        do=_clean(posted.get("do")),
        version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else None,
        texts=texts,
    )


def field_of(error: InvalidRule) -> str:
    """Return the name of the form's field that an error is about."""
    where, _, rest = error.field.partition(".")
    name = rest.split("[")[0].split(".")[0]
    return f"do_{name}" if where == "action" and name != "do" else name or where


def _clean(text: object) -> str:
    return str(text or "").replace("\x00", "").strip()


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return moment("ends_at", text if text.endswith("Z") or "+" in text else f"{text}Z")
    except InvalidFilter as error:
        raise InvalidRule("ends_at", error.detail) from None


def _whole(name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise InvalidRule(name, f"{text[:40]!r} is not a whole number.")
        return int(text)

    return read


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRule("action.factor", f"{text[:40]!r} is not a number.") from None


def _schema(text: str) -> Any:
    try:
        return strict_json.loads(text.encode("utf-8", "backslashreplace"))
    except strict_json.InvalidJson as error:
        raise InvalidRule("match.violates", error.detail) from None


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _text(name: str, value: Any) -> str:
    if name in ("headers", "json"):
        return "\n".join(condition_text(one) for one in value)
    if name == "violates":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if isinstance(value, Mapping):
        return range_text(value)
    if isinstance(value, bool):
        return "true"
    return ", ".join(value) if isinstance(value, list) else str(value)


_READ: dict[str, Callable[[str], Any]] = {
    "address": str,
    "content_type": str,
    "destination": str,
    "exception_class": str,
    "message": str,
    "size": lambda text: bounds("match.size", text),
    "status_code": lambda text: bounds("match.status_code", text),
    "attempts": lambda text: bounds("match.attempts", text),
    "failures": lambda text: bounds("match.failures", text),
    "expires_within_ms": _whole("match.expires_within_ms"),
    "headers": header_conditions,
    "json": json_conditions,
    "violates": _schema,
    "not_json": lambda _: True,
    "tags": _split,
    "do_address": str,
    "do_tags": _split,
    "do_delay_ms": _whole("action.delay_ms"),
    "do_factor": _factor,
}
