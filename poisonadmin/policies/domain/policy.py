"""The policy value: every setting that decides what follows a failure or a crash (R9, R10).

Fields carry the names that their systems gave them. Times are milliseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

from poisonadmin.core.domain.errors import PoisonAdminError

BUILT_IN_PATTERN = "#"
MAX_REDELIVERY_DELAY_FACTOR = 10
UNLIMITED = -1


class OnExhausted(StrEnum):
    """The end of a message after its last failure, when no address to move it to is in force."""

    PARK = "park"
    DISCARD = "discard"
    STAY = "stay"
    END_CONVERSATION = "end_conversation"
    LIST = "list"


class ExceptionDestination(StrEnum):
    """The place where WebSphere's default provider sends a message that failed too often (WAS-6)."""

    SYSTEM = "system"
    NONE = "none"
    SPECIFY = "specify"


# Where MQ sends what was backed out too often, where no queue is named for that (WAS-13).
SYSTEM_DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"


def system_exception_destination(messaging_engine: str) -> str:
    """Return the address of the exception destination that WebSphere gives a messaging engine (WAS-6)."""
    return f"_SYSTEM.Exception.Destination.{messaging_engine}"


class Blame(StrEnum):
    """Whom a crash accuses: what could have caused it, or all that had begun on the process that died (R2, SAP-8)."""

    EXACT = "exact"
    ALL_IN_FLIGHT = "all_in_flight"


@dataclass(frozen=True)
class Policy:
    """The settings in force on an address. The defaults switch every limit off; presets switch theirs on.

    Off is: -1 `max_delivery_attempts`; 0 `max_failed_deliveries`, `backout_threshold`, `failures_to_list`,
    `crashes_to_list`, `queue_off_after_rollbacks`, `conversation_failure_limit`; None `listener_max_retries`, whose 0
    means that the first failure stops the address.
    """

    redelivery_delay: int = 0
    redelivery_delay_multiplier: float = 1.0
    redelivery_collision_avoidance_factor: float = 0.0
    max_redelivery_delay: int | None = None  # None: ten times redelivery_delay, as in Artemis (ART-4)
    max_delivery_attempts: int = UNLIMITED
    crashes_count_as_failures: bool = False
    rollbacks_count_as_failures: bool = False
    dead_letter_address: str | None = None
    auto_create_dead_letter_resources: bool = False
    dead_letter_queue_prefix: str = "DLQ."
    dead_letter_queue_suffix: str = ""
    persist_delivery_count_before_delivery: bool = True  # accepted for compatibility; always true in effect (R9)

    max_failed_deliveries: int = 0
    exception_destination: ExceptionDestination = ExceptionDestination.SYSTEM
    exception_destination_address: str | None = None
    messaging_engine: str = "poisonadmin"
    blocked_retry_timeout: int = 5000

    listener_max_retries: int | None = None
    backout_threshold: int = 0
    backout_requeue_queue: str | None = None

    blacklisting_enabled: bool = False
    crash_limit: int = 2
    blame: Blame = Blame.EXACT
    approve_clears_candidate: bool = False
    fail_non_delivered: bool = False

    failures_to_list: int = 0
    crashes_to_list: int = 0

    queue_off_after_rollbacks: int = 0
    conversation_failure_limit: int = 0
    conversation_error_address: str | None = None

    on_exhausted: OnExhausted = OnExhausted.PARK
    ordered: bool = False
    max_payload_bytes: int = 64 * 1024 * 1024
    business_keys: tuple[str, ...] = ()

    keep_delivered_days: int | None = 30  # None: for ever
    keep_failed_days: int | None = 400
    keep_payload_days: int | None = None

    @property
    def counts_beyond_the_message(self) -> bool:
        """True when a delivery ends a count that is not the message's own: of its conversation, or of roll-backs."""
        return self.conversation_failure_limit > 0 or self.queue_off_after_rollbacks > 0

    @property
    def delay_cap(self) -> int:
        """The longest wait in milliseconds: `max_redelivery_delay`, else ten times the delay (ART-4)."""
        if self.max_redelivery_delay is not None:
            return self.max_redelivery_delay
        return self.redelivery_delay * MAX_REDELIVERY_DELAY_FACTOR


BUILT_IN = Policy(
    redelivery_delay=5000,
    redelivery_delay_multiplier=2.0,
    redelivery_collision_avoidance_factor=0.15,
    max_redelivery_delay=50_000,
    max_delivery_attempts=10,
    blacklisting_enabled=True,
    on_exhausted=OnExhausted.PARK,
)


PRESETS: dict[str, Policy] = {
    "sap": Policy(
        redelivery_delay=300_000,
        max_delivery_attempts=4,
        blacklisting_enabled=True,
        crash_limit=2,
        blame=Blame.ALL_IN_FLIGHT,
        on_exhausted=OnExhausted.PARK,
    ),
    "websphere": Policy(
        crashes_count_as_failures=True,
        rollbacks_count_as_failures=True,
        max_failed_deliveries=5,
        exception_destination=ExceptionDestination.SYSTEM,
        blocked_retry_timeout=5000,
        on_exhausted=OnExhausted.STAY,
    ),
    "websphere_mq": Policy(
        crashes_count_as_failures=True,
        rollbacks_count_as_failures=True,
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
        crashes_count_as_failures=True,
        rollbacks_count_as_failures=True,
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
        ordered=True,
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
