"""What each kind of thing looks like in JSON."""

from typing import Any

from poisonadmin.api.shape import JsonSchema, Shape
from poisonadmin.domain.prospects import Breaker
from poisonadmin.domain.states import Event, Reason, State
from poisonadmin.queries.addresses import AddressRow
from poisonadmin.queries.audit import AuditRow
from poisonadmin.queries.broker_looks import LookRow, LookState
from poisonadmin.queries.destinations import DestinationRow
from poisonadmin.queries.failures import FailureRow
from poisonadmin.queries.groups import GroupRow
from poisonadmin.queries.jobs import JobRow
from poisonadmin.queries.message_detail import MessageDetail
from poisonadmin.queries.message_list import MessageRow
from poisonadmin.queries.message_log import AttemptRow, HistoryRow, HopRow
from poisonadmin.queries.nodes import NodeRow
from poisonadmin.queries.policies import PolicyView, Preview
from poisonadmin.queries.policy_history import Change, PolicyVersion
from poisonadmin.queries.restart_jobs import RestartJobRow
from poisonadmin.queries.schedule import Schedule
from poisonadmin.queries.schedule_steps import NextStep, PastStep
from poisonadmin.queries.sources import FileRow, RejectedRow, SourceRow
from poisonadmin.queries.stats import Stats
from poisonadmin.queries.transport import Transport
from poisonadmin.store.models.attempt import Outcome
from poisonadmin.store.models.broker_look import LookPurpose
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.store.models.intake import FileState, SourceKind
from poisonadmin.store.models.job import JobKind, JobState
from poisonadmin.store.models.lane import AddressStatus

_MESSAGE = {"state": State, "reason": Reason | None}

MESSAGE = Shape("Message", MessageRow, kinds=_MESSAGE)
MESSAGE_DETAIL = Shape(
    "MessageDetail",
    MessageDetail,
    leave_out={"header_bytes"},
    also={"headers": dict[str, str]},
    kinds={**_MESSAGE, "address_status": AddressStatus},
)
ATTEMPT = Shape(
    "Attempt",
    AttemptRow,
    leave_out={"response", "output"},
    also={"response_text": str | None, "output_text": str | None, "signal": str | None},
    kinds={"outcome": Outcome, "node_end": NodeEnd | None},
)
HISTORY = Shape(
    "StateChange",
    HistoryRow,
    kinds={"from_state": State | None, "to_state": State, "event": Event, "reason": Reason | None},
)
HOP = Shape("Hop", HopRow)
TRANSPORT = Shape("Transport", Transport)
NEXT_STEP = Shape(
    "NextStep",
    NextStep,
    also={"formula": str | None, "sentence": str},
    kinds={"then": State, "reason": Reason | None},
)
PAST_STEP = Shape("PastStep", PastStep, also={"formula": str | None}, kinds={"outcome": Outcome})
BREAKER = Shape("Breaker", Breaker, also={"left": int, "rule": str, "sentence": str})
SCHEDULE = Shape(
    "Schedule",
    Schedule,
    kinds={"past": list[PAST_STEP], "next": list[NEXT_STEP], "breakers": list[BREAKER]},  # type: ignore[valid-type]
)
FAILURE = Shape("Failure", FailureRow, kinds={"outcome": Outcome})
GROUP = Shape("FailureGroup", GroupRow)
JOB = Shape("Job", JobRow, kinds={"kind": JobKind, "state": JobState})
NODE = Shape("Node", NodeRow, kinds={"end": NodeEnd | None})
AUDIT = Shape("AuditEntry", AuditRow)
STATS = Shape("Counts", Stats)
DESTINATION = Shape("Destination", DestinationRow, leave_out={"id"}, kinds={"kind": DestinationKind})
POLICY = Shape("Policy", PolicyView)
POLICY_CHANGE = Shape("PolicyChange", Change)
POLICY_VERSION = Shape("PolicyVersion", PolicyVersion, kinds={"changes": list[POLICY_CHANGE]})  # type: ignore[valid-type]
PREVIEW = Shape(
    "PolicyPreview",
    Preview,
    leave_out={"in_force"},
    kinds={"then": State | None, "reason": Reason | None, "breakers": list[BREAKER]},  # type: ignore[valid-type]
)
RESTART_JOB = Shape("RestartJob", RestartJobRow)
SOURCE = Shape("Source", SourceRow, kinds={"kind": SourceKind})
LOOK = Shape("BrokerLook", LookRow, kinds={"purpose": LookPurpose, "kind": SourceKind, "state": LookState})
SOURCE_FILE = Shape("SourceFile", FileRow, kinds={"state": FileState})
REJECTED = Shape("RejectedLine", RejectedRow, leave_out={"raw_start"}, also={"raw_text": str})
_ADDRESS = {"status": AddressStatus}
_HIDDEN_OF_ADDRESS = {"id", "in_force"}
ADDRESS = Shape(
    "Address",
    AddressRow,
    leave_out={*_HIDDEN_OF_ADDRESS, "queues"},
    also={"policy": dict[str, Any]},
    kinds=_ADDRESS,
)
ADDRESS_DETAIL = Shape(
    "AddressDetail",
    AddressRow,
    leave_out=_HIDDEN_OF_ADDRESS,
    also={"policy": dict[str, Any], "origins": dict[str, Any]},
    kinds=_ADDRESS,
)
IN_FORCE: JsonSchema = {
    "type": "object",
    "properties": {
        "address": {"type": "string"},
        "policy": {"type": "object", "additionalProperties": True},
        "destination": {"type": "string", "nullable": True},
        "origins": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"pattern": {"type": "string"}, "preset": {"type": "string", "nullable": True}},
                "required": ["pattern", "preset"],
            },
        },
    },
    "required": ["address", "policy", "destination", "origins"],
}
BATCH: JsonSchema = {
    "type": "object",
    "properties": {
        "batch": {"type": "string"},
        "accepted": {"type": "integer"},
        "duplicates": {"type": "integer"},
        "rejected_count": {"type": "integer", "description": "`rejected` names the first thousand of these."},
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "line": {"type": "integer"},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
                "required": ["line", "code", "detail"],
            },
        },
    },
    "required": ["batch", "accepted", "duplicates", "rejected_count", "rejected"],
}
