"""Masking rules as administrators set them up."""

import math
import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.access import Role
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.json_path import MAX_PATH_CHARS, InvalidPath, parse_path
from poisonadmin.core.domain.settings import InvalidValue, mistake_in
from poisonadmin.messages.domain.business_keys import MAX_NAME_CHARS

MAX_CHARS = 255
# In how many ways an expression may be tried at one place of a text.
MAX_WAYS = 1_000
_NESTED = 20
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_INSIDE = (_constants.ASSERT, _constants.ASSERT_NOT, _constants.ATOMIC_GROUP)
PARTS = ("json_path", "header", "key", "regex")


class InvalidMaskingRule(InvalidField):
    """Raised when a field of a masking rule is invalid; `field` names what is wrong."""

    code = "invalid_masking_rule"


def _path(text: str) -> str:
    try:
        parse_path(text)
    except InvalidPath as error:
        raise InvalidValue(error.detail) from None
    return text


def _name(text: str) -> str:
    if (mistake := mistake_in(text, MAX_CHARS)) is not None:
        raise InvalidValue(mistake)
    return text


def _regex(text: str) -> str:
    try:
        found = re.compile(text)
    except re.error as error:
        raise InvalidValue(f"is no regular expression: {error}") from None
    if found.match("") is not None:
        raise InvalidValue("finds the empty text, and so everything and nothing")
    if _ways(_parser.parse(text), is_end=True) > MAX_WAYS:
        raise InvalidValue(
            "could take for ever on a long text: only its end may repeat without a limit, and what repeats elsewhere"
            f" needs a small one, as [a-z]{{1,20}}, with no more than {MAX_WAYS:,} combinations in all"
        )
    return text


def _ways(parsed: Iterable[tuple[Any, Any]], *, is_end: bool) -> float:
    """Return an upper bound of the ways in which a part of an expression is tried at one place of a text.

    `is_end`: nothing follows it, so that whatever it finds first is taken.

    >>> [_ways(_parser.parse(text), is_end=True) for text in (r"DE[0-9]+", "[a-z]{1,20}@[a-z]+", "(ab?){0,2}x", "a*x")]
    [1, 20, 7, inf]
    """
    ways: float = 1
    parts = list(parsed)
    for place, (operator, given) in enumerate(parts, 1):
        ends = is_end and place == len(parts)
        if operator in _REPEATS:
            least, most, inner = given
            each = _ways(inner, is_end=False)
            if ends and each == 1:
                continue
            if most > MAX_WAYS:
                return math.inf
            ways *= sum(each**times for times in range(least, most + 1)) if each == 1 or most <= _NESTED else math.inf
        elif operator is _constants.BRANCH:
            ways *= sum(_ways(one, is_end=ends) for one in given[1])
        elif operator is _constants.SUBPATTERN:
            ways *= _ways(given[-1], is_end=ends)
        elif operator in _INSIDE:
            ways *= _ways(given if operator is _constants.ATOMIC_GROUP else given[1], is_end=False)
        elif operator is _constants.GROUPREF_EXISTS:
            return math.inf
    return ways


def _roles(given: list[str]) -> list[str]:
    for role in given:
        if role not in list(Role):
            raise InvalidValue(f"{role[:40]!r} is no role; those are {', '.join(Role)}.")
    return [str(role) for role in Role if role in given]


@settings.configuration
class MaskingRuleFields:
    """A part of messages at the addresses of `match` that roles but `allowed_roles` may not read.

    `json_path`: a place in their bodies; `header`: the header of a name; `key`: the business key of a name, or the
    conversation id; `regex`: whatever a regular expression finds in body, headers, keys and errors. One of these at
    most; without any it is the whole message.
    """

    match: str = settings.text(
        "Addresses", validate_pattern, most=MAX_ADDRESS_CHARS, hint="billing.#", note="An address, or a pattern."
    )
    json_path: str | None = settings.text(
        "JSON path", _path, default=None, most=MAX_PATH_CHARS, hint="$.customer.name", note="A place in the body."
    )
    header: str | None = settings.text("Header", _name, default=None, most=MAX_CHARS, hint="X-Customer")
    key: str | None = settings.text("Business key", _name, default=None, most=MAX_NAME_CHARS, hint="customer")
    regex: str | None = settings.text(
        "Regular expression",
        _regex,
        default=None,
        most=MAX_CHARS,
        hint="[A-Z]{2}[0-9]{20}",
        note="Whatever it finds in body, headers, business keys and errors.",
    )
    allowed_roles: list[str] = settings.lines(
        "Roles that read it in the clear, one a line",
        _roles,
        default=[],
        most=len(Role),
        each=16,
        rows=4,
        hint="admin",
        note=f"Of {', '.join(Role)}. Empty: nobody does; operators can still reveal one message with a reason.",
    )


def checked_rule(rule: MaskingRuleFields) -> MaskingRuleFields:
    """Return the rule as it is stored. Errors: `InvalidMaskingRule`."""

    def one_part() -> None:
        given = [name for name in PARTS if getattr(rule, name)]
        if len(given) > 1:
            raise InvalidMaskingRule(given[1], f"a rule with {given[0]} has none of the others; make another rule.")

    return settings.checked(rule, InvalidMaskingRule, also={"part": one_part})
