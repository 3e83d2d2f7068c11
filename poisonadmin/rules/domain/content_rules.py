"""Rules before a delivery, compiled: which of them decides of a message, and what.

The JSON parser and the compiler of JSON Schemas are passed in, since this package has the standard library only.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from poisonadmin.rules.domain.content_conditions import CompileSchema, Condition, Subject, conditions_of
from poisonadmin.rules.domain.rules import Before, RuleDefinition, RuleFailed, Stage, validate_rule

# A rule that takes longer than this for one message is switched off.
SLOW_SECONDS = 0.25


class FilterDecision(NamedTuple):
    """What a rule has decided. `tags` are put on the message; it is delivered when the action is TAG."""

    rule_id: int
    rule: str
    action: Before
    address: str | None
    tags: tuple[str, ...]

    @property
    def note(self) -> str:
        """What the history says of it."""
        return f"rule {self.rule}: {self.action}"


@dataclass(frozen=True)
class ContentRule:
    """A compiled rule. `needs_body`: a condition looks at the payload's bytes, `needs_headers` at the headers."""

    rule: RuleDefinition
    ruling: FilterDecision
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
        conditions = tuple(conditions_of(match, compile_schema))
        do = Before(action["do"])
        ruling = FilterDecision(rule.id, rule.name, do, action.get("address"), tuple(action.get("tags", ())))
    except Exception as error:
        raise RuleFailed(rule, f"it cannot be compiled: {error}"[:500]) from error
    needs_body = bool({"json", "violates", "not_json"} & set(match))
    return ContentRule(rule, ruling, conditions, needs_body, "headers" in match)


class _Table(NamedTuple):
    """The rules that concern an address. Only what looks into payloads can be slow."""

    rules: tuple[ContentRule, ...]
    looks_into_payloads: bool


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
            began = self._clock() if table.looks_into_payloads else 0.0
            try:
                ruling = next((one.ruling for one in table.rules if one.holds(subject)), None)
            except RuleFailed as failed:
                self._drop(failed)
                continue
            # The clock is a system call, so rules are timed one by one only when all of them together were slow.
            if table.looks_into_payloads and self._clock() - began > SLOW_SECONDS and self._drop_slow(table, subject):
                continue
            return ruling

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
