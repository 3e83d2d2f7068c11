"""A policy in one sentence: how often a message that keeps failing is tried, how far apart, and what comes then."""

from itertools import islice

from poisonadmin.core.domain.durations import written
from poisonadmin.messages.domain.states import Reason
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, on_failure
from poisonadmin.policies.domain.retry_limits import attempts_in_all, breakers
from poisonadmin.policies.domain.retry_series import series

# Waits beyond these differ no more, but for jitter.
_WAITS_READ = 100
_ENDS: dict[Reason | None, str] = {
    Reason.ATTEMPTS_EXHAUSTED: "then an administrator decides",
    Reason.DISCARDED_BY_POLICY: "then given up",
    Reason.LISTED: "then put on the poison list",
    Reason.CONVERSATION_ENDED: "then its conversation ends",
}


def in_words(policy: Policy) -> str:
    """Return the policy as a sentence, without jitter.

    >>> from poisonadmin.policies.domain.policy import BUILT_IN, PRESETS
    >>> in_words(BUILT_IN)
    'Tried 10 times, 5 s to 50 s apart, then an administrator decides.'
    >>> in_words(PRESETS["artemis"])
    'Tried 10 times, at once, then given up.'
    >>> in_words(PRESETS["service_broker"])
    'Tried without end, at once, later 1 s apart; roll-back 5 stops the address; failure 4 ends the conversation.'
    """
    attempts = attempts_in_all(policy)
    limits = breakers(policy, failure_count=0, rollbacks_in_row=0, conversation_failures=0)
    stops = [f"{one.what} {one.limit} {one.consequence}" for one in limits]
    if policy.listener_max_retries is not None and (attempts is None or limits[0].limit <= attempts):
        return f"{'; '.join(stops).capitalize()}."
    tries = {None: "without end", 1: "once"}.get(attempts, f"{attempts} times")
    waits = [step.wait_ms for step in islice(series(policy), min((attempts or _WAITS_READ) - 1, _WAITS_READ))]
    parts = [f"Tried {tries}", *([_apart(min(waits), max(waits))] if waits else [])]
    if attempts is not None:
        end = on_failure(policy, PlainTry(attempt_number=attempts, failure_count=attempts - 1))
        parts.append(f"then moved to {end.move_to}" if end.move_to else _ENDS.get(end.reason, f"then {end.state}"))
    return f"{'; '.join([', '.join(parts), *stops])}."


def _apart(least: int, most: int) -> str:
    if least == 0:
        return f"at once, later {written(most)} apart" if most else "at once"
    return f"{written(least)} apart" if least == most else f"{written(least)} to {written(most)} apart"
