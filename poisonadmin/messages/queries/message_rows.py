"""A message as lists and its own page show it: columns, joins, and messages found by their ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.masking import masked
from poisonadmin.core.queries.paging import MAX_LIMIT
from poisonadmin.core.queries.rows import fetch, fetch_values
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.archived_index import require_archived
from poisonadmin.messages.queries.due import PREDECESSOR
from poisonadmin.messages.queries.merged_groups import SEEN_AS

COLUMNS = Sql(
    """m.id, e.message_id, a.name AS address, m.state, m.reason, m.candidate, m.attempt_number, m.failure_count,
 m.crash_count, CASE WHEN m.state = 'TBDL' THEN m.due_at END AS due_at, m.state_at, e.received_at, m.failed_at,
 e.expires_at, e.conversation_id, e.content_type, e.payload_bytes, o.name AS original_address, {seen_as} AS group_id,
 g.title AS group_title, coalesce((SELECT jsonb_object_agg(k.name, k.value) FROM business_key k
 WHERE k.message_id = m.id), jsonb_build_object()) AS business_keys, m.attempt_number - (SELECT count(*)::int
 FROM history h WHERE h.message_id = m.id AND h.event = 'released') AS attempts_begun,
 a.status AS address_status, a.destination_id IS NOT NULL AS has_destination,
 (SELECT username FROM auth_user WHERE auth_user.id = w.owner_id) AS owner,
 coalesce(w.tags, ARRAY[]::text[]) AS tags, FALSE AS archived, {predecessor} AS predecessor_id""",
    seen_as=SEEN_AS,
    predecessor=PREDECESSOR,
)
JOINS = Sql(
    """JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
 LEFT JOIN address o ON o.id = m.original_address_id LEFT JOIN failure_group g ON g.id = m.group_id
 LEFT JOIN annotation w ON w.message_id = m.id"""
)


@dataclass(frozen=True)
class MessageRow:
    """A message as lists show it. `group_title` is its last failure in one line, `business_keys` what the policy of its
    address had named at intake. `attempts_begun` leaves out what was claimed and put back before it was begun, which
    `attempt_number` counts. Nothing is delivered while `address_status` is not ON, or the address has no destination,
    whatever is due.
    `owner`: the account that cares for it. `tags`: those of rules and of people. `archived`: it is in the archive
    alone, from which it can be restored. `predecessor_id`: the message before it in its ordered conversation that waits
    for a decision, and holds it.
    """

    id: int
    message_id: str
    address: str
    state: str
    reason: str | None
    candidate: bool
    attempt_number: int
    failure_count: int
    crash_count: int
    due_at: datetime | None
    state_at: datetime
    received_at: datetime
    failed_at: datetime | None
    expires_at: datetime | None
    conversation_id: str | None
    content_type: str
    payload_bytes: int
    original_address: str | None
    group_id: int | None
    group_title: str | None
    business_keys: Mapping[str, str]
    address_status: str
    attempts_begun: int
    has_destination: bool
    owner: str | None
    tags: Sequence[str]
    archived: bool
    predecessor_id: int | None

    @property
    def etag(self) -> str:
        """The entity tag that a decision's `If-Match` is compared with."""
        return f'"{self.state}-{self.attempt_number}-{self.failure_count}"'


def messages_by_id(ids: Sequence[int], *, principal: Principal) -> list[MessageRow]:
    """Return the messages among `ids` (at most 500 are read) that the principal may see, newest first."""
    principal.require(Permission.READ)
    wanted = [message_id for message_id in ids if 0 < message_id <= MAX_ID][:MAX_LIMIT]
    rows = fetch(
        MessageRow,
        Sql(
            "SELECT {columns} FROM message m {joins} WHERE m.id = ANY({wanted}) ORDER BY m.id DESC",
            columns=COLUMNS,
            joins=JOINS,
            wanted=wanted,
        ),
    )
    return masked([row for row in rows if principal.sees(row.address)], principal)


def require_message(message_id: int, principal: Principal, permission: Permission = Permission.READ) -> bool:
    """Return whether the message is in the database, and not archived.

    Errors: `NotFound`, also out of scope; `MessageErased`; `NotAllowed`.
    """
    principal.require(permission)
    found = []
    if 0 < message_id <= MAX_ID:
        found = fetch_values(
            "SELECT a.name FROM message m JOIN address a ON a.id = m.address_id WHERE m.id = %s", [message_id]
        )
    if not found:
        require_archived(message_id, principal)
        return False
    if not principal.sees(found[0]):
        raise NotFound(f"There is no message {message_id}.")
    return True
