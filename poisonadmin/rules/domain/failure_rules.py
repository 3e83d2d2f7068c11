"""Rules after a failure: the first that matches overrides the policy's decision."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from poisonadmin.core.domain.globs import glob
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.answer_decision import on_moved
from poisonadmin.policies.domain.retry_decision import TOO_MANY_FAILURES, ConversationEnd, RetryDecision
from poisonadmin.policies.domain.settings import MAX_DELAY_MS
from poisonadmin.rules.domain.rules import After, RuleDefinition, RuleFailed, Stage, validate_rule


class Failed(Protocol):
    """A failed attempt. `failures`: how often the message has failed, this time included."""

    @property
    def address(self) -> str: ...
    @property
    def destination(self) -> str | None: ...
    @property
    def error_class(self) -> str | None: ...
    @property
    def cause_class(self) -> str | None: ...
    @property
    def error_message(self) -> str | None: ...
    @property
    def status_code(self) -> int | None: ...
    @property
    def attempt_number(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def tags(self) -> Sequence[str]: ...


Condition = Callable[[Failed], bool]


@dataclass(frozen=True)
class FailureRule:
    """A compiled rule."""

    rule: RuleDefinition
    conditions: tuple[Condition, ...]

    def holds(self, failed: Failed) -> bool:
        """Return whether every condition holds."""
        return self.rule.covers(failed.address) and all(condition(failed) for condition in self.conditions)

    @property
    def action(self) -> After:
        """Its action."""
        return After(self.rule.action["do"])

    @property
    def note(self) -> str:
        """Its note in the history."""
        return f"rule {self.rule.name}: {self.action}"


def compile_failure_rule(rule: RuleDefinition) -> FailureRule:
    """Return the rule ready to be asked; raise RuleFailed when it cannot be, whatever it was saved as."""
    try:
        # What was saved is looked at again: somebody may have written past the operations.
        validate_rule(Stage.AFTER, rule.match, rule.action)
        return FailureRule(
            rule, tuple(_CONDITIONS[name](value) for name, value in rule.match.items() if name != "address")
        )
    except Exception as error:
        raise RuleFailed(rule, f"it cannot be compiled: {error}"[:500]) from error


def first_match(rules: Iterable[FailureRule], failed: Failed) -> FailureRule | None:
    """Return the rule that decides, None when none matches."""
    return next((one for one in rules if one.holds(failed)), None)


def overridden(decision: RetryDecision, one: FailureRule, *, delay_ms: int) -> RetryDecision:
    """Return the decision that the rule gives in place of the policy's; its count of failures stays.

    `delay_ms`: what the policy would have the message wait, were there no limit.
    """
    action, count = one.rule.action, decision.failure_count
    match one.action:
        case After.RETRY:
            wait = action.get("delay_ms", round(delay_ms * action.get("factor", 1.0)))
            found = RetryDecision(State.TBDL, Event.FAILED, None, min(wait, MAX_DELAY_MS), None, count)
        case After.PARK:
            found = RetryDecision(State.NDLV, Event.FAILED, Reason.RULE, None, None, count)
        case After.FAIL:
            found = RetryDecision(State.FAIL, Event.FAILED, Reason.DISCARDED_BY_POLICY, None, None, count)
        case After.REDIRECT:
            found = on_moved(action["address"])
        case After.END_CONVERSATION:
            found = RetryDecision(
                State.FAIL,
                Event.FAILED,
                Reason.CONVERSATION_ENDED,
                None,
                None,
                count,
                conversation_error=ConversationEnd(TOO_MANY_FAILURES.code, one.note),
            )
    return replace(found, note=one.note)


def _text(name: str) -> Callable[[str], Condition]:
    def condition(pattern: str) -> Condition:
        fits = glob(pattern)
        return lambda failed: (value := getattr(failed, name)) is not None and fits(value)

    return condition


def _range(name: str) -> Callable[[Mapping[str, Any]], Condition]:
    def condition(bounds: Mapping[str, Any]) -> Condition:
        low, high = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
        return lambda failed: (value := getattr(failed, name)) is not None and low <= value <= high

    return condition


def _exception_class(pattern: str) -> Condition:
    fits = glob(pattern)
    return lambda failed: any(name is not None and fits(name) for name in (failed.error_class, failed.cause_class))


def _tags(wanted: Sequence[str]) -> Condition:
    needed = frozenset(wanted)
    return lambda failed: needed.issubset(failed.tags)


_CONDITIONS: dict[str, Callable[[Any], Condition]] = {
    "destination": _text("destination"),
    "exception_class": _exception_class,
    "message": _text("error_message"),
    "status_code": _range("status_code"),
    "attempts": _range("attempt_number"),
    "failures": _range("failures"),
    "tags": _tags,
}
