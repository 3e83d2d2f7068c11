"""The fingerprints of failure groups: what is merged into a group, as far as the principal sees it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition, visible_ids
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.counts import NOW
from poisonadmin.messages.queries.merged_groups import members_of


@dataclass(frozen=True)
class Fingerprint:
    """One fingerprint, and the group that it is seen as; figures are in the reader's scope."""

    id: int
    group_id: int
    title: str
    error_class: str
    fingerprint: str
    first_at: datetime
    last_at: datetime
    failures: int


def visible_members(principal: Principal) -> list[int] | None:
    """Return the groups that have a message in the principal's scope; None where that is all of them."""
    visible = visible_ids(principal)
    if visible is None:
        return None
    # By group and state, so that what left a state does not hide what is in another.
    counted = Sql(
        """SELECT DISTINCT group_id FROM (
            SELECT c.group_id FROM {now} WHERE c.group_id IS NOT NULL AND c.address_id = ANY({addresses})
            GROUP BY c.group_id, c.state HAVING sum(c.n) > 0
        ) counted""",
        now=NOW,
        addresses=visible,
    )
    return fetch_values(counted)


def members_seen(group_ids: Collection[int], visible: Sequence[int] | None, principal: Principal) -> list[Fingerprint]:
    """Return the groups and what is merged into them, as far as the principal sees them."""
    of = members_of(group_ids)
    ids = list(of) if visible is None else sorted(set(of) & set(visible))
    rows = fetch_rows(
        "SELECT id, title, error_class, fingerprint, first_at, last_at, failures FROM failure_group WHERE id = ANY(%s)",
        [ids],
    )
    return _counted_in_scope([Fingerprint(row[0], of[row[0]], *row[1:]) for row in rows], principal)


def _counted_in_scope(members: list[Fingerprint], principal: Principal) -> list[Fingerprint]:
    """Return the members with what is in scope of their failures only; each failure is an attempt."""
    if principal.sees_everything:
        return members
    counted = fetch_rows(
        Sql(
            """SELECT t.fingerprint, count(*), min(t.finished_at), max(t.finished_at) FROM attempt t
            JOIN message m ON m.id = t.message_id AND {scope}
            WHERE t.outcome <> 'delivered' AND t.fingerprint = ANY({fingerprints}) GROUP BY 1""",
            scope=scope_condition(principal),
            fingerprints=[member.fingerprint for member in members],
        )
    )
    found = {fingerprint: (n, first_at, last_at) for fingerprint, n, first_at, last_at in counted}
    totals = [(one, *found.get(one.fingerprint, (0, one.first_at, one.last_at))) for one in members]
    return [replace(one, failures=n, first_at=first_at, last_at=last_at) for one, n, first_at, last_at in totals]
