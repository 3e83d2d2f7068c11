"""Rules: what an administrator has put before and after every delivery. One ordered table, the first match decides.

A rule is two JSON objects. `match` names its conditions, all of which must hold; what it leaves out is `*`, anything.
`action` says what follows. Stage BEFORE looks at a message that is about to be delivered, AFTER at a failed attempt.
Source: the table is that of MQ's `runmqdlq`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.domain.errors import all_checked
from poisonadmin.core.domain.settings import InvalidValue, checked
from poisonadmin.rules.domain.fields import (
    Check,
    InvalidRule,
    address,
    address_pattern,
    counts,
    delay,
    factor,
    flag,
    header_conditions,
    json_conditions,
    schema,
    size_range,
    status_range,
    tags,
    text_pattern,
    wait,
)
from poisonadmin.rules.domain.json_schema import InvalidSchema, compile_schema

ANYTHING = "*"


class Stage(StrEnum):
    """When a rule is asked."""

    BEFORE = "before"
    AFTER = "after"


class Before(StrEnum):
    """The actions before a delivery. TAG only tags, and the message is delivered; the others may tag too."""

    REJECT = "reject"
    DISCARD = "discard"
    REDIRECT = "redirect"
    END_CONVERSATION = "end_conversation"
    TAG = "tag"


class After(StrEnum):
    """The actions after a failure, whatever the policy says. RETRY: wait `delay_ms`, or `factor` times what it says."""

    RETRY = "retry"
    PARK = "park"
    FAIL = "fail"
    REDIRECT = "redirect"
    END_CONVERSATION = "end_conversation"


@dataclass(frozen=True)
class RuleDefinition:
    """A rule as it is stored. `match` and `action` were checked by `validate_rule` when it was saved."""

    id: int
    name: str
    version: int
    match: Mapping[str, Any] = field(default_factory=dict)
    action: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, address_name: str) -> bool:
        """Return whether its address column matches. A redirect leaves alone what is where it leads.

        >>> RuleDefinition(1, "all", 1).covers("orders.eu")
        True
        >>> RuleDefinition(1, "one", 1, {"address": "orders.#"}).covers("returns")
        False
        """
        if self.action.get("address") == address_name:
            return False
        pattern = self.match.get("address", ANYTHING)
        return pattern == ANYTHING or matches(pattern, address_name)


class RuleFailed(Exception):
    """Raised when a rule cannot be asked, or takes too long: it is to be switched off. `why` is for people."""

    def __init__(self, rule: RuleDefinition, why: str) -> None:
        super().__init__(f"rule {rule.name}: {why}")
        self.rule = rule
        self.why = why


_BEFORE: dict[str, Check] = {
    "address": address_pattern,
    "content_type": text_pattern,
    "size": size_range,
    "expires_within_ms": wait,
    "headers": header_conditions,
    "json": json_conditions,
    "violates": schema,
    "not_json": flag,
}
_AFTER: dict[str, Check] = {
    "address": address_pattern,
    "destination": text_pattern,
    "exception_class": text_pattern,
    "message": text_pattern,
    "status_code": status_range,
    "attempts": counts,
    "failures": counts,
    "tags": tags,
}
CONDITIONS: dict[Stage, dict[str, Check]] = {Stage.BEFORE: _BEFORE, Stage.AFTER: _AFTER}

# What an action takes beside `do`, and which of it it must have.
_PARTS: dict[Stage, dict[str, tuple[dict[str, Check], tuple[str, ...]]]] = {
    Stage.BEFORE: {
        Before.REJECT: ({"tags": tags}, ()),
        Before.DISCARD: ({"tags": tags}, ()),
        Before.REDIRECT: ({"address": address, "tags": tags}, ("address",)),
        Before.END_CONVERSATION: ({"tags": tags}, ()),
        Before.TAG: ({"tags": tags}, ("tags",)),
    },
    Stage.AFTER: {
        After.RETRY: ({"delay_ms": delay, "factor": factor}, ()),
        After.PARK: ({}, ()),
        After.FAIL: ({}, ()),
        After.REDIRECT: ({"address": address}, ("address",)),
        After.END_CONVERSATION: ({}, ()),
    },
}


def _text(least: int, most: int, *, is_printable: bool = True) -> Callable[[str], str]:
    def check(value: str) -> str:
        text = value.strip()
        is_clean = text.isprintable() if is_printable else "\0" not in text
        if not least <= len(text) <= most or not is_clean:
            raise InvalidValue(f"must be a text of {least} to {most} characters.")
        return text

    return check


@settings.configuration
class RuleFields:
    """The fields of a rule that a person writes. `owner` None: who saves it."""

    name: str = settings.name_of(100, is_stripped=True)
    owner: str | None = settings.text("Owner", _text(1, 255), default=None, most=255)
    note: str = settings.text("Note: what it is for", _text(0, 2000, is_printable=False), default="", most=2000, rows=2)
    match: Mapping[str, Any] = settings.other(default={})
    action: Mapping[str, Any] = settings.other()
    ends_at: datetime | None = settings.other(default=None)


def checked_rule(stage: Stage, fields: RuleFields) -> RuleFields:
    """Return what is to be stored of a rule that is written so; raise InvalidRule."""
    found: dict[str, Any] = {}

    def definition() -> dict[str, Any]:
        found["match"], found["action"] = validate_rule(stage, fields.match, fields.action)
        if "violates" in found["match"]:
            try:
                compile_schema(found["match"]["violates"])
            except InvalidSchema as error:
                raise InvalidRule("match.violates", error.detail) from None
        return dict(found["match"])

    checked_fields = checked(fields, InvalidRule, instead={"match": definition})
    return replace(checked_fields, action=found["action"])


def reads_payloads(match: Mapping[str, Any]) -> bool:
    """Return whether a condition looks at the bytes of payloads."""
    return not {"json", "violates", "not_json"}.isdisjoint(match)


def reads_content(match: Mapping[str, Any]) -> bool:
    """Return whether a condition looks at what may be masked: payloads, headers, or the text of an error."""
    return reads_payloads(match) or not {"headers", "message"}.isdisjoint(match)


def validate_rule(
    stage: Stage, match: Mapping[str, Any], action: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return match and action as they are to be stored: what means anything is left out. Raise InvalidRule.

    A JSON Schema is looked at only as far as this package can; `poisonadmin.rules.domain.json_schema` compiles it.

    >>> validate_rule(Stage.BEFORE, {"address": "*", "size": {"min": 10}}, {"do": "reject"})
    ({'size': {'min': 10}}, {'do': 'reject'})
    """
    both = {
        "match": partial(checked_match, Stage(stage), match),
        "action": partial(_checked_action, Stage(stage), action),
    }
    found = all_checked(both)
    return found["match"], found["action"]


def checked_match(stage: Stage, match: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a rule as they are to be stored. Raise InvalidRule."""
    if not isinstance(match, Mapping):
        raise InvalidRule("match", "must be an object.")
    known = CONDITIONS[stage]
    for name in match:
        if name not in known:
            detail = f"there is no such condition {stage} a delivery; known are {', '.join(known)}."
            raise InvalidRule(f"match.{str(name)[:40]}", detail)
    return all_checked(
        {
            name: partial(known[name], f"match.{name}", value)
            for name, value in match.items()
            if value != ANYTHING and value is not None
        }
    )


def _checked_action(stage: Stage, action: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(action, Mapping):
        raise InvalidRule("action", "must be an object.")
    actions = _PARTS[stage]
    do = action.get("do")
    if not isinstance(do, str) or do not in actions:
        raise InvalidRule("action.do", f"must be one of {', '.join(actions)}.")
    parts, needed = actions[do]
    given = {name: value for name, value in action.items() if name != "do" and value is not None}
    for name in given:
        if name not in parts:
            raise InvalidRule(f"action.{str(name)[:40]}", f"is not part of the action {do}.")
    for name in needed:
        if name not in given:
            raise InvalidRule(f"action.{name}", f"is missing: {do} needs it.")
    found = {"do": do} | all_checked(
        {name: partial(parts[name], f"action.{name}", value) for name, value in given.items()}
    )
    if do == After.RETRY and len(found) != 2:
        raise InvalidRule("action.delay_ms", "retry needs either delay_ms or factor.")
    return found
