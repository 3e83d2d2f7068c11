"""The vectors that are failures one after another, with what is to become of the message: one table for all runs.

They are run through the pure rules, through the API and the redelivery (`tests.conformance.courses`), and some of them
through the whole system, and go the same course.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

JsonMap = Mapping[str, object]
NO_JITTER: JsonMap = {"redelivery_collision_avoidance_factor": 0}
REASON_2362 = "MQRC_BACKOUT_THRESHOLD_REACHED (2362)"


@dataclass(frozen=True)
class Hop:
    """A move: where to, to which queue there, and why."""

    to: str
    queue: str | None = None
    reason: str = "attempts_exhausted"


@dataclass(frozen=True)
class Course:
    """What the failures made of a message. `waits`: milliseconds after each failure that returned it to its queue."""

    waits: tuple[int, ...]
    state: str
    reason: str | None = None
    hop: Hop | None = None
    stops: bool = False


@dataclass(frozen=True)
class Vector:
    """So many failures of one message, the policies (pattern: preset, settings) that hold for it, and its course."""

    id: str
    policies: Mapping[str, tuple[str | None, JsonMap]]
    address: str
    failures: int
    course: Course
    covers: tuple[str, ...] = ()
    conversation: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that a run of this vector names."""
        return (self.id, *self.covers)


def _one(
    vector_id: str,
    preset: str | None,
    settings: JsonMap,
    failures: int,
    course: Course,
    *covers: str,
) -> Vector:
    """Return a vector on an address of its own."""
    name = vector_id.lower()
    policies = {f"{name}.#": (preset, settings)}
    return Vector(vector_id, policies, f"{name}.orders", failures, course, covers)


def _queued(*waits: int) -> Course:
    return Course(waits, "TBDL")


def _parked(*waits: int, to: str | None = None, reason: str = "attempts_exhausted", why: str = "") -> Course:
    hop = Hop(to, reason=why or reason) if to else None
    return Course(waits, "NDLV", reason, hop)


SYSTEM_DESTINATION = "_SYSTEM.Exception.Destination.poisonadmin"

SAP = (
    _one("SAP-12", "sap", {}, 4, _parked(*[300_000] * 3)),
    replace(
        _one("SAP-12", "sap", {"fail_non_delivered": True}, 4, Course((300_000,) * 3, "FAIL", "discarded_by_policy")),
        policies={"sap-12-fails.#": ("sap", {"fail_non_delivered": True})},
        address="sap-12-fails.orders",
    ),
)

WEBSPHERE = (
    _one("WAS-a", "websphere", {}, 4, _queued(0, 0, 0, 0), "WAS-4", "WAS-7"),
    _one("WAS-b", "websphere", {}, 5, _parked(0, 0, 0, 0, to=SYSTEM_DESTINATION), "WAS-5", "WAS-6", "WAS-7", "WAS-8"),
    _one("WAS-c", "websphere", {"exception_destination": "none"}, 8, _queued(*[0] * 4, *[5000] * 4), "WAS-6", "WAS-9"),
    _one(
        "WAS-d",
        "websphere",
        {
            "max_failed_deliveries": 2,
            "exception_destination": "specify",
            "exception_destination_address": "park.here",
        },
        2,
        _parked(0, to="park.here"),
        "WAS-6",
    ),
    _one("WAS-e", "websphere_mq", {}, 1, Course((), "TBDL", stops=True), "WAS-10", "WAS-11"),
    _one(
        "WAS-f",
        "websphere_mq",
        {"listener_max_retries": 3, "backout_threshold": 2, "backout_requeue_queue": "BO"},
        2,
        _parked(0, to="BO"),
        "WAS-10",
        "WAS-13",
    ),
    _one(
        "WAS-g",
        "websphere_mq",
        {"listener_max_retries": 2, "backout_threshold": 5},
        2,
        Course((0,), "TBDL", stops=True),
        "WAS-10",
    ),
    _one(
        "WAS-h",
        "websphere_mq",
        {"listener_max_retries": 2, "backout_threshold": 2},
        2,
        Course((0,), "TBDL", stops=True),
        "WAS-13",
    ),
    _one(
        "WAS-i",
        "websphere_mq",
        {"listener_max_retries": 3, "backout_threshold": 2},
        2,
        _parked(0, to="SYSTEM.DEAD.LETTER.QUEUE", why=REASON_2362),
        "WAS-13",
        "WAS-14",
        "R5",
    ),
    _one("WAS-j", "websphere_mq", {"listener_max_retries": 10**6}, 8, _queued(*[0] * 8), "WAS-14", "R5"),
)

_FIVE_SECONDS: JsonMap = {"redelivery_delay": 5000}

ARTEMIS = (
    _one(
        "ART-a",
        "artemis",
        {**_FIVE_SECONDS, "redelivery_delay_multiplier": 2, "max_redelivery_delay": 15_000},
        5,
        _queued(5000, 10_000, 15_000, 15_000, 15_000),
        "ART-3",
    ),
    _one(
        "ART-c",
        "artemis",
        {**_FIVE_SECONDS, "redelivery_delay_multiplier": 1.5, "max_redelivery_delay": 50_000},
        7,
        _queued(5000, 7500, 11_250, 16_875, 25_312, 37_968, 50_000),
        "ART-3",
        "ART-19",
    ),
    _one(
        "ART-d",
        "artemis",
        {**_FIVE_SECONDS, "redelivery_delay_multiplier": 2},
        6,
        _queued(5000, 10_000, 20_000, 40_000, 50_000, 50_000),
        "ART-4",
    ),
    _one(
        "ART-f",
        "artemis",
        {},
        10,
        Course((0,) * 9, "FAIL", "discarded_by_policy"),
        "ART-2",
        "ART-8",
        "ART-9",
        "R1",
        "R4",
    ),
    _one(
        "ART-10",
        "artemis",
        {"dead_letter_address": "deadLetterAddress", "max_delivery_attempts": 3},
        3,
        _parked(0, 0, to="deadLetterAddress"),
        "R9",
    ),
    Vector(
        "ART-g",
        {
            "stocks": (
                "artemis",
                {
                    "max_delivery_attempts": 1,
                    "dead_letter_address": "art-g.dead",
                    "auto_create_dead_letter_resources": True,
                    "dead_letter_queue_prefix": "",
                    "dead_letter_queue_suffix": ".DLQ",
                },
            ),
            "art-g.dead": (None, {}),
        },
        "stocks",
        1,
        Course((), "NDLV", "attempts_exhausted", Hop("art-g.dead", "stocks.DLQ")),
        ("ART-13", "ART-14"),
    ),
    Vector(
        "ART-h",
        {
            "art-h.#": ("artemis", {"max_delivery_attempts": 3}),
            "art-h.vip": (None, {"max_delivery_attempts": -1}),
        },
        "art-h.vip",
        11,
        _queued(*[0] * 10, 1000),
        ("ART-8", "ART-12", "ART-18", "R11"),
    ),
    Vector(
        "ART-h",
        {"art-h2.#": ("artemis", {"max_delivery_attempts": 3}), "art-h2.vip": (None, {"max_delivery_attempts": -1})},
        "art-h2.others",
        3,
        Course((0, 0), "FAIL", "discarded_by_policy"),
        ("ART-12",),
    ),
)

AMPS = (_one("AMPS-13", "amps", {}, 1, _parked(reason="listed"), "R7"),)

SERVICE_BROKER = (
    replace(_one("SSB-a", "service_broker", {}, 3, _queued(0, 0, 0)), conversation="ssb-a"),
    replace(
        _one("SSB-b", "service_broker", {}, 4, Course((0, 0, 0), "FAIL", "conversation_ended"), "SSB-10", "R6"),
        conversation="ssb-b",
    ),
    _one("SSB-f", "service_broker", {}, 6, _queued(*[0] * 6), "SSB-11"),
)

BUILT_IN = (_one("R10", None, NO_JITTER, 10, _parked(5000, 10_000, 20_000, 40_000, *[50_000] * 5), "R1"),)

VECTORS: tuple[Vector, ...] = (*SAP, *WEBSPHERE, *ARTEMIS, *AMPS, *SERVICE_BROKER, *BUILT_IN)

# Of each system one that is soon over when its waits are waited out: moved, removed, stopped, its conversation ended.
_IN_REAL_TIME = ("was-b.orders", "was-g.orders", "art-f.orders", "stocks", "amps-13.orders", "ssb-b.orders")
WHOLE_SYSTEM_VECTORS = tuple(vector for vector in VECTORS if vector.address in _IN_REAL_TIME)
