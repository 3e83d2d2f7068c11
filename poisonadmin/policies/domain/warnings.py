"""Warnings of the policy form."""

from itertools import islice

from poisonadmin.policies.domain import hot_loops
from poisonadmin.policies.domain.answer_decision import on_rolled_back
from poisonadmin.policies.domain.policy import Blame, ExceptionDestination, Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, counted_events, on_crash
from poisonadmin.policies.domain.retry_limits import attempts_in_all
from poisonadmin.policies.domain.retry_series import series

_PACE = (
    f"after {hot_loops.IMMEDIATE_REDELIVERIES} of them within {hot_loops.WITHIN_SECONDS} s each waits "
    f"{hot_loops.WAIT_MS} ms."
)


def warnings(policy: Policy, *, back_from: str | None = None) -> tuple[str, ...]:
    """Return the warnings of the policy form, one sentence each, empty when nothing looks wrong (R2, R5, R11, R15).

    `back_from`: the address from which its dead letters come back to where they were.
    """
    found = []
    if back_from is not None:
        found.append(
            f"A message that fails here is moved to {back_from}, and from there back to where it was: in place of that "
            "it is parked there as `dead_letter_loop`."
        )
    retries = policy.listener_max_retries
    if policy.backout_threshold > 0 and retries is not None and retries <= policy.backout_threshold:
        found.append(
            f"listener_max_retries ({retries}) should exceed backout_threshold ({policy.backout_threshold}): "
            "otherwise the address stops before a message is moved."
        )
    names_none = policy.exception_destination_address is None
    if policy.exception_destination is ExceptionDestination.SPECIFY and names_none:
        found.append("exception_destination is `specify` but exception_destination_address is empty.")
    if policy.blame is Blame.ALL_IN_FLIGHT:
        found.append(
            "Of two begun at once on a lost node, blame `all_in_flight`, as in SAP, blacklists both at the second "
            "loss; `exact` runs each alone and blacklists the killer."
        )
    attempts = attempts_in_all(policy)
    if attempts is not None and attempts > 1 and not any(one.wait_ms for one in islice(series(policy), attempts - 1)):
        found.append(
            f"The {attempts} tries follow each other without a wait: what lasts longer than they do, such as a restart "
            "of the consumer, uses them all up."
        )
    (later,) = islice(series(policy), hot_loops.IMMEDIATE_REDELIVERIES, hot_loops.IMMEDIATE_REDELIVERIES + 1)
    if later.decision.note == hot_loops.NOTE:
        where = "Outside a conversation nothing" if policy.conversation_failure_limit else "Nothing"
        found.append(f"{where} ends the redeliveries of a message that keeps failing, and they have no wait: {_PACE}")
    uncounted = _endless_and_uncounted(policy)
    if uncounted:
        what = " or ".join(uncounted)
        found.append(f"No limit counts how often a message {what}, and it is redelivered without a wait: {_PACE}")
    return tuple(found)


def _endless_and_uncounted(policy: Policy) -> list[str]:
    """Return what else can go on without an end and a wait, since it is no failure by this policy (R3)."""
    decisions = {
        "crashes its process": on_crash(policy, PlainTry(), 0, False),
        "is rolled back": on_rolled_back(policy, PlainTry()),
    }
    return [
        what
        for what, decision in decisions.items()
        if decision.event not in counted_events(policy)
        and hot_loops.is_paced(hot_loops.paced(decision, policy, "", is_hot=True, is_in_conversation=False).note)
    ]
