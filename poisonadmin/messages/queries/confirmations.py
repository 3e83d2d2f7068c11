"""What consumers have said of the messages that their brokers took."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.rows import fetch
from poisonadmin.messages.domain.confirmations import Confirming

CAP = 10_000

# Over `confirmation c`. The first two are spelt as in its partial index.
CONFIRMING = {
    Confirming.AWAITED: "c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by >= now()",
    Confirming.UNANSWERED: "c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by < now()",
    Confirming.CONFIRMED: "c.confirmed_at IS NOT NULL",
}


@dataclass(frozen=True)
class Unconfirmed:
    """Delivered messages without their consumer's confirmation, each counted to 10,000; `unanswered`: it is overdue."""

    awaited: int
    unanswered: int


def unconfirmed(principal: Principal) -> Unconfirmed:
    """Return how many messages in scope wait for their consumer's confirmation."""
    principal.require(Permission.READ)
    visible = visible_ids(principal)
    scope = "TRUE" if visible is None else "m.address_id = ANY(%s)"
    parameters = [] if visible is None else [visible]
    counted = [
        f"""(SELECT count(*) FROM (SELECT FROM confirmation c JOIN message m ON m.id = c.message_id
              WHERE {CONFIRMING[one]} AND m.state = 'DLVD' AND m.attempt_number = c.attempt_number AND {scope}
              LIMIT {CAP}) AS found) AS {one}"""  # noqa: S608  (constants)
        for one in (Confirming.AWAITED, Confirming.UNANSWERED)
    ]
    return fetch(Unconfirmed, f"SELECT {', '.join(counted)}", parameters * 2)[0]
