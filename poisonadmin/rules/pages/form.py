"""The forms of rules, one a stage: an empty field matches anything, so only what is filled in is a condition."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter, moment
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import After, Before, RuleFields, Stage, checked_rule
from poisonadmin.rules.pages.condition_formatter import (
    bounds,
    condition_text,
    header_conditions,
    json_conditions,
    range_text,
)
from poisonadmin.rules.queries import RuleRow
from poisonadmin.web.pages.forms import TextField, decimal_number, duration_field, texts_by_comma, ticks
from poisonadmin.web.pages.setting_fields import SettingsForm

_OWN, _THEN = "name owner ends_at note", "do do_address do_tags do_delay_ms do_factor"


def _range(name: str, label: str, hint: str) -> TextField:
    return TextField(label, read=lambda text: bounds(f"match.{name}", text), write=range_text, hint=hint)


def _conditions(label: str, read: Callable[[str], Any], hint: str) -> TextField:
    return TextField(label, read=read, write=lambda value: "\n".join(map(condition_text, value)), hint=hint, rows=3)


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


class RuleForm(SettingsForm):
    """The form of a rule, for both stages. The last two sections are the rule's conditions and its action.

    Fields of the action but `do` itself begin with `do_`, for conditions may have the same names.
    """

    object_type = "rule"
    keeps = ()
    stage: ClassVar[Stage]
    settings = settings_of(RuleFields)
    ends_at = TextField("Ends (UTC)", read=_moment, write=_moment_text, type="datetime-local")
    address = TextField("Address", hint="orders.# or orders.*.created; empty: every address")

    def initial_of(self, row: RuleRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        action = {name if name == "do" else f"do_{name}": value for name, value in row.action.items()}
        return super().initial_of(row) | dict(row.match) | action

    def check(self) -> None:
        """Raise what the command would refuse."""
        checked_rule(self.stage, self.rule())

    def rule(self) -> RuleFields:
        """Return what is to be saved."""
        typed = {name: value for name, value in self.filled_in().items() if name != "not_json" or value}
        when, then = (names.split() for _, names in self.layout[1:])
        return RuleFields(
            name=typed.get("name", ""),
            match={name: typed[name] for name in when if name in typed},
            action={name.removeprefix("do_"): typed[name] for name in then if name in typed},
            note=typed.get("note", ""),
            owner=typed.get("owner"),
            ends_at=typed.get("ends_at"),
        )

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error: the domain says `match.json[0].path` or `action.address`."""
        where, _, rest = super().field_of(error).partition(".")
        name = rest.split("[")[0].split(".")[0]
        return f"do_{name}" if where == "action" and name != "do" else name or where

    def sentence_of(self, error: PoisonAdminError) -> str:
        """Return what stands at the field of an error; of several conditions it says which."""
        number = re.search(r"\[(\d+)\]", str(getattr(error, "field", "")))
        sentence = super().sentence_of(error)
        return f"Line {int(number[1]) + 1}: {sentence}" if number else sentence


class BeforeForm(RuleForm):
    """A rule before a delivery."""

    stage = Stage.BEFORE
    when = "address content_type size expires_within_ms headers json violates not_json"
    layout = (("", _OWN), ("When", when), ("Then", _THEN))
    content_type = TextField("Content type", hint="application/json*")
    size = _range("size", "Payload size in bytes", "1048576.. or 0..0")
    expires_within_ms = duration_field("Expires within", hint="5 min")
    headers = _conditions("Headers, one condition a line", header_conditions, "X-Kind like push*\nX-Trace absent")
    json = _conditions("JSON fields, one condition a line", json_conditions, "$.amount outside 0..\n$.id missing")
    violates = TextField(
        "Violates this JSON Schema (draft 2020-12)",
        read=_schema,
        write=_schema_text,
        hint='{"required": ["id"]}',
        rows=3,
    )
    not_json = ticks("The payload is not JSON")
    do = TextField(
        "Action",
        needed=True,
        choices=[
            (Before.REJECT, "Reject: NDLV, an administrator decides"),
            (Before.DISCARD, "Discard: FAIL"),
            (Before.REDIRECT, "Redirect to another address"),
            (Before.END_CONVERSATION, "End the conversation with an error: FAIL, the rest of it waits for a decision"),
            (Before.TAG, "Tag, and deliver"),
        ],
    )
    do_address = TextField("Redirect to", hint="orders.odd")
    do_tags = texts_by_comma("Tags to put on it", hint="odd, large")


class AfterForm(RuleForm):
    """A rule after a failure."""

    stage = Stage.AFTER
    when = "address destination exception_class message status_code attempts failures tags"
    layout = (("", _OWN), ("When", when), ("Then", _THEN))
    destination = TextField("Destination", hint="shop*")
    exception_class = TextField("Exception class, or its cause's", hint="*Timeout")
    message = TextField("Exception message", hint="*deadlock*")
    status_code = _range("status_code", "HTTP status", "500..599")
    attempts = _range("attempts", "Attempt number", "3..")
    failures = _range("failures", "Failures, this one included", "3..")
    tags = texts_by_comma("Tags, all of them", hint="large, push")
    do = TextField(
        "Action",
        needed=True,
        choices=[
            (After.RETRY, "Retry with another delay"),
            (After.PARK, "Park now: NDLV"),
            (After.FAIL, "Give up: FAIL"),
            (After.REDIRECT, "Redirect to another address"),
            (After.END_CONVERSATION, "End the conversation"),
        ],
    )
    do_address = TextField("Redirect to", hint="orders.slow")
    do_delay_ms = duration_field("Retry after", hint="5 min")
    do_factor = decimal_number("Retry after the policy's delay times", hint="2")


FORMS: Mapping[Stage, type[RuleForm]] = {Stage.BEFORE: BeforeForm, Stage.AFTER: AfterForm}
