"""A vector's course by the pure rules: nothing runs, nothing is stored."""

from poisonadmin.messages.domain.states import State
from poisonadmin.policies.domain.resolution import PolicySpec, resolve
from poisonadmin.policies.domain.retry_decision import PlainTry, RetryDecision
from poisonadmin.policies.domain.retry_series import series
from tests.conformance.vectors import Course, Hop, Vector


def course_by_rules(vector: Vector) -> Course:
    """Return what the verdicts on so many failures make of a message."""
    specs = [PolicySpec(pattern, preset, settings) for pattern, (preset, settings) in vector.policies.items()]
    policy = resolve(specs, vector.address).policy
    waits: list[int] = []
    first = PlainTry(id=1, attempt_number=1, address=vector.address)
    steps = series(policy, first, conversation_failures=0 if vector.conversation else None)
    for failure, step in zip(range(1, vector.failures + 1), steps, strict=False):
        verdict = step.decision
        assert verdict.failure_count == failure
        is_last = verdict.state is not State.TBDL or verdict.stop_address
        assert failure == vector.failures or not is_last, f"it ended after {failure} failures"
        if not is_last:
            assert verdict.delay_ms is not None
            waits.append(verdict.delay_ms)
    return Course(tuple(waits), str(verdict.state), _text(verdict.reason), _hop(verdict), verdict.stop_address)


def _hop(verdict: RetryDecision) -> Hop | None:
    if verdict.move_to is None:
        return None
    return Hop(verdict.move_to, verdict.queue, verdict.reason_code or str(verdict.reason))


def _text(reason: object) -> str | None:
    return None if reason is None else str(reason)
