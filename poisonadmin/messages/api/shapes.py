"""What messages and what belongs to them look like in JSON."""

from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.delivery.queries.schedule import Schedule
from poisonadmin.delivery.queries.schedule_steps import NextStep, PastStep
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.messages.queries.detail import MessageDetail
from poisonadmin.messages.queries.failure_groups import GroupRow
from poisonadmin.messages.queries.failures import FailureRow
from poisonadmin.messages.queries.history import AttemptRow, HistoryRow, HopRow
from poisonadmin.messages.queries.lists import MessageRow
from poisonadmin.messages.queries.stats import ScopeCounts
from poisonadmin.messages.queries.transport import Transport
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.shapes import BREAKER

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


SCHEDULE = Shape(
    "Schedule",
    Schedule,
    kinds={"past": list[PAST_STEP], "next": list[NEXT_STEP], "breakers": list[BREAKER]},  # type: ignore[valid-type]
)


FAILURE = Shape("Failure", FailureRow, kinds={"outcome": Outcome})


GROUP = Shape("FailureGroup", GroupRow)


STATS = Shape("Counts", ScopeCounts)
