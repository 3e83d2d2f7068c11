"""The forms of rules, one a stage: an empty field matches anything, so only what is filled in is a condition."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from django import forms

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.filter_values import InvalidFilter, moment
from poisonadmin.rules.commands.table import MAX_NAME_CHARS, MAX_NOTE_CHARS, RuleFields
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
from poisonadmin.web.pages.forms import (
    ParsedText,
    VersionedForm,
    asks,
    decimal_number,
    texts_by_comma,
    ticks,
    whole_number,
)

_ACTIONS: Mapping[Stage, dict[str, str]] = {
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


def _text(label: str, hint: str, **more: Any) -> forms.CharField:
    return forms.CharField(**asks(label, hint=hint, **more))


def _range(name: str, label: str, hint: str) -> ParsedText:
    return ParsedText(lambda text: bounds(f"match.{name}", text), range_text, **asks(label, hint=hint))


def _conditions(read: Any, label: str, hint: str) -> ParsedText:
    return ParsedText(
        read, lambda value: "\n".join(condition_text(one) for one in value), **asks(label, hint=hint, rows=3)
    )


def _schema(text: str) -> Any:
    try:
        return strict_json.loads(text.encode("utf-8", "backslashreplace"))
    except strict_json.InvalidJson as error:
        raise InvalidRule("match.violates", error.detail) from None


def _moment(text: str) -> datetime | None:
    try:
        return moment("ends_at", text if text.endswith("Z") or "+" in text else f"{text}Z")
    except InvalidFilter as error:
        raise InvalidRule("ends_at", error.detail) from None


def _moment_text(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _schema_text(schema: Any) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _action(stage: Stage) -> forms.CharField:
    return forms.CharField(**asks("Action", needed=True, choices=list(_ACTIONS[stage].items())))


class RuleForm(VersionedForm):
    """What both stages have. The last two sections are the rule's conditions and its action.

    Fields of the action but `do` itself begin with `do_`, for conditions may have the same names.
    """

    stage: ClassVar[Stage]
    name = forms.CharField(max_length=MAX_NAME_CHARS, **asks("Name", needed=True))
    owner = forms.CharField(max_length=255, **asks("Owner"))
    ends_at = ParsedText(_moment, _moment_text, **asks("Ends (UTC)", type="datetime-local"))
    note = forms.CharField(max_length=MAX_NOTE_CHARS, **asks("Note: what it is for", rows=2))
    address = _text("Address", "orders.# or orders.*.created; empty: every address")

    def __init__(self, data: Mapping[str, Any] | None = None, row: RuleRow | None = None, owner: str = "") -> None:
        super().__init__(data, initial={"owner": owner} if row is None else _initial(row))

    def rule(self) -> RuleFields:
        """Return what is to be saved."""
        typed = {name: value for name, value in self.filled_in().items() if name != "not_json" or value}
        (_, when), (_, then) = self.layout[-2:]
        return RuleFields(
            typed.get("name", ""),
            {name: typed[name] for name in when if name in typed},
            {name.removeprefix("do_"): typed[name] for name in then if name in typed},
            typed.get("note", ""),
            typed.get("owner"),
            typed.get("ends_at"),
        )

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error: the domain says `match.json[0].path` or `action.address`."""
        where, _, rest = super().field_of(error).partition(".")
        name = rest.split("[")[0].split(".")[0]
        return f"do_{name}" if where == "action" and name != "do" else name or where


class BeforeForm(RuleForm):
    """A rule before a delivery."""

    stage = Stage.BEFORE
    layout = (
        ("", ("name", "owner", "ends_at", "note")),
        (
            "When",
            ("address", "content_type", "size", "expires_within_ms", "headers", "json", "violates", "not_json"),
        ),
        ("Then", ("do", "do_address", "do_tags")),
    )
    content_type = _text("Content type", "application/json*")
    size = _range("size", "Payload size in bytes", "1048576.. or 0..0")
    expires_within_ms = whole_number("Expires within (ms)", hint="60000")
    headers = _conditions(header_conditions, "Headers, one condition a line", "X-Kind like push*\nX-Trace absent")
    json = _conditions(
        json_conditions, "JSON fields, one condition a line", "$.amount outside 0..\n$.employee.id missing"
    )
    violates = ParsedText(
        _schema,
        _schema_text,
        **asks("Violates this JSON Schema (draft 2020-12)", hint='{"required": ["id"]}', rows=3),
    )
    not_json = ticks("The payload is not JSON")
    do = _action(Stage.BEFORE)
    do_address = _text("Redirect to", "orders.odd")
    do_tags = texts_by_comma("Tags to put on it", hint="odd, large")


class AfterForm(RuleForm):
    """A rule after a failure."""

    stage = Stage.AFTER
    layout = (
        ("", ("name", "owner", "ends_at", "note")),
        (
            "When",
            (
                "address",
                "destination",
                "exception_class",
                "message",
                "status_code",
                "attempts",
                "failures",
                "tags",
            ),
        ),
        ("Then", ("do", "do_address", "do_delay_ms", "do_factor")),
    )
    destination = _text("Destination", "shop*")
    exception_class = _text("Exception class, or its cause's", "*Timeout")
    message = _text("Exception message", "*deadlock*")
    status_code = _range("status_code", "HTTP status", "500..599")
    attempts = _range("attempts", "Attempt number", "3..")
    failures = _range("failures", "Failures, this one included", "3..")
    tags = texts_by_comma("Tags, all of them", hint="large, push")
    do = _action(Stage.AFTER)
    do_address = _text("Redirect to", "orders.slow")
    do_delay_ms = whole_number("Retry after (ms)", hint="60000")
    do_factor = decimal_number("Retry after the policy's delay times", hint="2")


FORMS: Mapping[Stage, type[RuleForm]] = {Stage.BEFORE: BeforeForm, Stage.AFTER: AfterForm}


def _initial(row: RuleRow) -> dict[str, Any]:
    own = {"name": row.name, "owner": row.owner, "note": row.note, "ends_at": row.ends_at, "version": row.version}
    action = {name if name == "do" else f"do_{name}": value for name, value in row.action.items()}
    return own | dict(row.match) | action
