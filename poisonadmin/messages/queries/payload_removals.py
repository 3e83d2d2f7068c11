"""Messages whose payloads were removed, as a policy says: known by a row each, live and archived."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.core.queries.sql import Sql

# Of a message `m`, for a query that joins `REMOVAL_JOIN`; the fields of `PayloadRemoval`.
REMOVAL = Sql("r.removed_at AS payload_removed_at, r.kept_days AS payload_kept_days, r.policy AS payload_policy")
REMOVAL_JOIN = Sql("LEFT JOIN removed_payload AS r ON r.message_id = m.id")
_OF_MESSAGE = partial(Sql, "SELECT {removal} FROM removed_payload AS r WHERE r.message_id = {id}", removal=REMOVAL)


@dataclass(frozen=True)
class PayloadRemoval:
    """When a payload was removed, after how many days it was kept, and the pattern of the policy that says so."""

    payload_removed_at: datetime
    payload_kept_days: int
    payload_policy: str


class PayloadRemoved(PoisonAdminError):
    """Raised when the payload of a message is asked for, or would be delivered, and was removed."""

    code = "payload_removed"
    status = 410

    def __init__(self, message_id: int, removal: PayloadRemoval, consequence: str = "") -> None:
        days = removal.payload_kept_days
        super().__init__(
            f"The payload of message {message_id} was removed on {removal.payload_removed_at:%Y-%m-%d}, kept {days}"
            f" day{'' if days == 1 else 's'} by policy {removal.payload_policy}{consequence}."
        )


def removal_of(message_id: int) -> PayloadRemoval | None:
    """Return how the payload of a message was removed; None where it was not."""
    return fetch_one(PayloadRemoval, _OF_MESSAGE(id=message_id))


def require_payload(message_id: int) -> None:
    """Do nothing for a message that has its payload; raise PayloadRemoved."""
    if (removal := removal_of(message_id)) is not None:
        raise PayloadRemoved(message_id, removal)
