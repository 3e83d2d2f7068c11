"""The six systems' own defaults, as policies (SEMANTICS R10's table).

Each sets every field: what is not named here keeps the value that switches it off, so the crash rule is on in `sap`
and `amps` only.
"""

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.policies.domain.policy import ExceptionDestination, OnExhausted, Policy

PRESETS: dict[str, Policy] = {
    "sap": Policy(
        redelivery_delay=300_000,
        max_delivery_attempts=4,
        blacklisting_enabled=True,
        crash_limit=2,
        on_exhausted=OnExhausted.PARK,
    ),
    "websphere": Policy(
        max_failed_deliveries=5,
        exception_destination=ExceptionDestination.SYSTEM,
        blocked_retry_timeout=5000,
        on_exhausted=OnExhausted.STAY,
    ),
    "websphere_mq": Policy(
        listener_max_retries=0,
        backout_threshold=0,
        on_exhausted=OnExhausted.STAY,
    ),
    "artemis": Policy(
        redelivery_delay=0,
        redelivery_delay_multiplier=1.0,
        redelivery_collision_avoidance_factor=0.0,
        max_redelivery_delay=None,
        max_delivery_attempts=10,
        dead_letter_address=None,
        auto_create_dead_letter_resources=False,
        dead_letter_queue_prefix="DLQ.",
        dead_letter_queue_suffix="",
        persist_delivery_count_before_delivery=False,
        on_exhausted=OnExhausted.DISCARD,
    ),
    "amps": Policy(
        failures_to_list=1,
        crashes_to_list=1,
        blacklisting_enabled=True,
        crash_limit=1,
        on_exhausted=OnExhausted.LIST,
    ),
    "service_broker": Policy(
        conversation_failure_limit=4,
        queue_off_after_rollbacks=5,
        on_exhausted=OnExhausted.END_CONVERSATION,
    ),
}


class UnknownPreset(PoisonAdminError):
    """Raised when a policy names a preset that does not exist."""

    code = "unknown_preset"

    def __init__(self, name: object) -> None:
        super().__init__(f"{name!r} is not a preset; there are {', '.join(PRESETS)}.")


def preset(name: str) -> Policy:
    """Return the preset called `name`; raise `UnknownPreset` when there is none."""
    if name not in PRESETS:
        raise UnknownPreset(name)
    return PRESETS[name]
