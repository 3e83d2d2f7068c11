"""The conditions on messages that an index of their own serves, one value at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# No index names `state` (store/models/message.py). What waits lies above the floors of the lanes that have something,
# and what is under way is named by the open claims; both are few beside what is delivered.
IN_STATE = {
    "TBDL": """m.state = 'TBDL' AND m.id IN (
        SELECT waiting.id FROM lane CROSS JOIN LATERAL (
            SELECT w.id FROM message w WHERE w.lane_id = lane.id AND w.state = 'TBDL' AND w.due_at >= lane.next_due
        ) AS waiting WHERE lane.next_due IS NOT NULL)""",
    "DLNG": """m.state = 'DLNG' AND m.id IN (
        SELECT unnest(message_ids) FROM claim_shard JOIN claim ON claim.id = claim_id WHERE is_open)""",
    "DLVD": "m.state = 'DLVD'",
    "NDLV": "m.is_undecided",
    "FAIL": "m.is_given_up",
}


@dataclass(frozen=True)
class Axis:
    """`name` is a column of `message` (state, address_id, group_id); a row has one of `values` in it."""

    name: str
    values: Sequence[Any]

    @property
    def conditions(self) -> list[str]:
        """The SQL condition for each value."""
        if self.name == "state":
            return [IN_STATE[value] for value in self.values]
        return [f"m.{self.name} = {int(value)}" for value in self.values]


@dataclass(frozen=True)
class Where:
    """What rows of `message m` must be: one of the values on each of `axes`, and what `sql` says with `parameters`."""

    axes: tuple[Axis, ...]
    sql: str
    parameters: list[Any]

    @property
    def whole(self) -> str:
        """All of it as one condition."""
        axes = [f"({' OR '.join(axis.conditions) or 'FALSE'})" for axis in self.axes]
        return " AND ".join([*axes, self.sql])
