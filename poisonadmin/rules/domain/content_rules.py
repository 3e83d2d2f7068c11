"""Rules before a delivery, compiled: which of them decides of a message, and what.

The JSON parser and the compiler of JSON Schemas are passed in, since this package has the standard library only.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from poisonadmin.core.domain.globs import glob
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.answer_decision import on_conversation_ended
from poisonadmin.policies.domain.retry_decision import TOO_MANY_FAILURES, ConversationEnd, RetryDecision
from poisonadmin.rules.domain.json_conditions import json_condition, within
from poisonadmin.rules.domain.rules import Before, RuleDefinition, RuleFailed, Stage, reads_payloads, validate_rule

# A larger payload is not looked into: conditions on its JSON do not hold. Rules on the size are made for it.
MAX_JSON_BYTES = 4 * 1024 * 1024

CompileSchema = Callable[[Any], Callable[[Any], bool]]
Loads = Callable[[bytes], Any]
_NOT_READ = object()
# A rule that takes longer than this for one message is switched off.
SLOW_SECONDS = 0.25


class Subject:
    """A message that rules are asked about. Its payload is parsed once, and only when a rule needs to know.

    `expires_in_ms` None: it does not expire. `loads` raises ValueError, or RecursionError, for what is not JSON.
    """

    __slots__ = ("_document", "_headers", "_loads", "_lowered", "content_type", "expires_in_ms", "payload", "size")

    def __init__(
        self,
        payload: bytes,
        *,
        loads: Loads,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        expires_in_ms: float | None = None,
        size: int | None = None,
    ) -> None:
        self.payload = payload
        self.size = len(payload) if size is None else size
        self.content_type = content_type
        self.expires_in_ms = expires_in_ms
        self._loads = loads
        self._headers = headers or {}
        self._lowered: dict[str, str] | None = None
        self._document: Any = _NOT_READ

    def header(self, name: str) -> str | None:
        """Return a header's value; `name` in lower case."""
        if self._lowered is None:
            self._lowered = {key.lower(): value for key, value in self._headers.items()}
        return self._lowered.get(name)

    @property
    def is_looked_into(self) -> bool:
        """True when its payload is small enough to be parsed."""
        return self.size <= MAX_JSON_BYTES

    def document(self) -> Any:
        """Return the JSON value of the payload; raise ValueError for none."""
        if self._document is _NOT_READ:
            try:
                self._document = self._loads(self.payload)
            except (ValueError, RecursionError):
                self._document = ValueError
        if self._document is ValueError:
            raise ValueError
        return self._document


Condition = Callable[[Subject], bool]


def _conditions_of(match: Mapping[str, Any], compile_schema: CompileSchema) -> Iterable[Condition]:
    """Yield the conditions that all must hold, the cheap ones first."""
    if size := match.get("size"):
        inside = within(size)
        yield lambda subject: inside(subject.size)
    if pattern := match.get("content_type"):
        fits = glob(pattern, ignore_case=True)
        yield lambda subject: fits(subject.content_type)
    if limit := match.get("expires_within_ms"):
        yield lambda subject: subject.expires_in_ms is not None and subject.expires_in_ms <= limit
    for one in match.get("headers", ()):
        yield _header_condition(one)
    if match.get("not_json"):
        yield _is_not_json
    if any(name in match for name in ("json", "violates")):
        yield lambda subject: subject.is_looked_into
    for one in match.get("json", ()):
        yield _json_condition(one)
    if "violates" in match:
        is_valid = compile_schema(match["violates"])
        yield lambda subject: not is_valid(subject.document())


def _is_not_json(subject: Subject) -> bool:
    if not subject.is_looked_into:
        return False
    try:
        subject.document()
    except ValueError:
        return True
    return False


def _header_condition(one: Mapping[str, Any]) -> Condition:
    name = one["name"].lower()
    if "like" in one:
        fits = glob(one["like"])
        return lambda subject: (value := subject.header(name)) is not None and fits(value)
    wanted = "present" in one
    return lambda subject: (subject.header(name) is not None) is wanted


def _json_condition(one: Mapping[str, Any]) -> Condition:
    holds = json_condition(one)
    return lambda subject: holds(subject.document())


class FilterDecision(NamedTuple):
    """The decision of a rule. `tags` are put on the message; it is delivered when the action is TAG."""

    rule_id: int
    rule: str
    action: Before
    address: str | None
    tags: tuple[str, ...]

    @property
    def note(self) -> str:
        """Its note in the history."""
        return f"rule {self.rule}: {self.action}"


@dataclass(frozen=True)
class ContentRule:
    """A compiled rule. `needs_body`: a condition looks at the payload's bytes, `needs_headers` at the headers."""

    rule: RuleDefinition
    decision: FilterDecision
    conditions: tuple[Condition, ...]
    needs_body: bool
    needs_headers: bool

    def holds(self, subject: Subject) -> bool:
        """Return whether every condition holds. Raise RuleFailed."""
        try:
            for condition in self.conditions:
                if not condition(subject):
                    return False
        except ValueError:  # its payload is not JSON
            return False
        except Exception as error:
            raise RuleFailed(self.rule, f"it cannot be asked: {type(error).__name__}: {error}"[:500]) from error
        return True


def compile_content_rule(rule: RuleDefinition, *, compile_schema: CompileSchema) -> ContentRule:
    """Return the rule ready to be asked; raise RuleFailed when it cannot be, whatever it was saved as."""
    try:
        # What was saved is looked at again: somebody may have written past the operations.
        match, action = validate_rule(Stage.BEFORE, rule.match, rule.action)
        conditions = tuple(_conditions_of(match, compile_schema))
        do = Before(action["do"])
        decision = FilterDecision(rule.id, rule.name, do, action.get("address"), tuple(action.get("tags", ())))
    except Exception as error:
        raise RuleFailed(rule, f"it cannot be compiled: {error}"[:500]) from error
    return ContentRule(rule, decision, conditions, reads_payloads(match), "headers" in match)


class _Table(NamedTuple):
    """The rules that concern an address. Only one that looks into payloads can be slow."""

    rules: tuple[ContentRule, ...]
    needs_bodies: bool


class ContentRules:
    """The table of compiled rules in their order. A rule that fails is dropped, and kept in `failed`."""

    def __init__(self, rules: Iterable[ContentRule], *, clock: Callable[[], float] = time.thread_time) -> None:
        self.rules = tuple(rules)
        self.failed: dict[int, RuleFailed] = {}
        self._clock = clock
        self._by_address: dict[str, _Table] = {}

    def ask(self, address: str, subject: Subject) -> FilterDecision | None:
        """Return what the first matching rule decides; None when none matches.

        A rule that fails, or takes longer than `SLOW_SECONDS` of processor time for one message, is not asked again.
        """
        while True:
            table = self._by_address.get(address) or self._table(address)
            began = self._clock() if table.needs_bodies else 0.0
            try:
                decision = next((one.decision for one in table.rules if one.holds(subject)), None)
            except RuleFailed as failed:
                self._drop(failed)
                continue
            # The clock is a system call, so rules are timed one by one only when all of them together were slow.
            if table.needs_bodies and self._clock() - began > SLOW_SECONDS and self._drop_slow(table, subject):
                continue
            return decision

    def _table(self, address: str) -> _Table:
        rules = tuple(one for one in self.rules if one.rule.id not in self.failed and one.rule.covers(address))
        table = self._by_address[address] = _Table(rules, any(one.needs_body for one in rules))
        return table

    def _drop(self, failed: RuleFailed) -> None:
        self.failed[failed.rule.id] = failed
        self._by_address.clear()

    def _drop_slow(self, table: _Table, subject: Subject) -> bool:
        """Drop the rules that are too slow for the message; return whether there is one."""
        slow: list[RuleFailed] = []
        for one in table.rules:
            if one.needs_body:
                began = self._clock()
                try:
                    one.holds(subject)
                except RuleFailed as failed:
                    slow.append(failed)
                    continue
                if (spent := self._clock() - began) > SLOW_SECONDS:
                    why = f"it took {spent:.1f} s for one message; {SLOW_SECONDS} s are allowed"
                    slow.append(RuleFailed(one.rule, why))
        for one_failed in slow:
            self._drop(one_failed)
        return bool(slow)


def on_ruled(do: Before, address: str | None, *, failure_count: int, why: str = "") -> RetryDecision:
    """Return the decision on a message that a content rule kept from being delivered. What it is suspected of stays.

    `address`: where it is redirected to. `why`: the rule, in words.
    """
    match do:
        case Before.REDIRECT if address is not None:
            return RetryDecision(State.TBDL, Event.REDIRECTED, None, 0, address, 0)
        case Before.REDIRECT:
            return RetryDecision(State.NDLV, Event.REDIRECTED, Reason.RULE, None, None, failure_count)
        case Before.END_CONVERSATION:
            return replace(
                on_conversation_ended(failure_count, ConversationEnd(TOO_MANY_FAILURES.code, why)),
                candidate=None,
                crash_count=None,
            )
        case Before.DISCARD:
            return RetryDecision(State.FAIL, Event.REJECTED, Reason.DISCARDED_BY_POLICY, None, None, failure_count)
    return RetryDecision(State.NDLV, Event.REJECTED, Reason.REJECTED, None, None, failure_count)
