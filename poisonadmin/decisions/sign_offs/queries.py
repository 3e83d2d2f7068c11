"""Sign-offs: the rules that ask for them, whether an operation needs one, and how many are awaited."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, bounded, columns, fetch, fetch_by_id, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import Sql, all_given
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.domain import MessagesAt, SignOffLimit, SignOffNeeded, strictest


@dataclass(frozen=True, kw_only=True)
class SignOffRuleRow(SignOffLimit, Versioned):
    """An operation on more than `above` messages at addresses that `match` needs a sign-off. `action` null: any."""

    id: int
    version: int
    updated_by: str
    updated_at: datetime

    @property
    def name(self) -> str:
        """The rule's name in the audit log."""
        return rule_name(self.match, self.action)


def rule_name(match: str, action: str | None) -> str:
    """Return what the audit log calls the rule of a pattern and an action.

    >>> rule_name("orders.#", None)
    'orders.# any'
    """
    return f"{match[:200]} {action or 'any'}"


_SELECT = Sql("SELECT {columns} FROM sign_off_rule", columns=columns(SignOffRuleRow, "sign_off_rule"))


def list_sign_off_rules(*, principal: Principal) -> list[SignOffRuleRow]:
    """Return the rules by pattern, of those whose pattern lies within the caller's scope."""
    principal.require(Permission.READ)
    found = fetch(SignOffRuleRow, f"{_SELECT} ORDER BY match, action NULLS FIRST")
    return [row for row in found if principal.covers(row.match)]


def get_sign_off_rule(rule_id: int, *, principal: Principal) -> SignOffRuleRow:
    """Return the rule; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(SignOffRuleRow, f"{_SELECT} WHERE id = %s", rule_id)
    if found is None or not principal.covers(found.match):
        raise NotFound(f"There is no sign-off rule {rule_id}.")
    return found


COUNT_SECONDS = 60
_LIMITS = "SELECT match, action, above FROM sign_off_rule WHERE action = %s OR (action IS NULL AND %s)"
# What was signed off, or begun without, was decided by more than one limit.
_EARLIER = """
SELECT selection_id, params ->> 'address', count FROM operation
WHERE requester = %s AND action = %s AND sign_off IS NULL AND requested_at > now() - interval '1 hour'
"""
_MESSAGES_AT = """
SELECT address.name, back.name, targets, count(*) FILTER (WHERE is_member), count(*) FILTER (WHERE NOT is_member)
FROM (
    SELECT id, bool_or(is_member) AS is_member, array_remove(array_agg(DISTINCT target), NULL) AS targets
    FROM (
        SELECT unnest(%(ids)s::bigint[]) AS id, TRUE AS is_member, %(target)s::text AS target
        UNION ALL
        SELECT unnest(message_ids), selection_id IS NOT DISTINCT FROM %(selection)s, target
        FROM unnest(%(selections)s::bigint[], %(targets)s::text[]) AS one (selection_id, target)
             JOIN selection_piece USING (selection_id)
    ) AS chosen GROUP BY id
) AS member
     JOIN message ON message.id = member.id JOIN address ON address.id = message.address_id
     JOIN address AS back ON back.id = coalesce(message.original_address_id, message.address_id)
GROUP BY 1, 2, 3
"""


def limits_of(action: OperationAction) -> list[SignOffLimit]:
    """Return the limits that hold for an action. An assignment can be set back: only a rule that names it counts."""
    return fetch(SignOffLimit, _LIMITS, [str(action), action is not OperationAction.ASSIGN])


def sign_off_needed(
    limits: Sequence[SignOffLimit],
    action: OperationAction,
    *,
    principal: Principal,
    count: int,
    selection_id: int | None = None,
    ids: Sequence[int] = (),
    target: str | None = None,
) -> SignOffNeeded | None:
    """Return which of the `limits_of` the action an operation would exceed if the principal began it now.

    It is on the `count` members of a selection, or on `ids`, and may redirect them to `target`. Different messages are
    counted, also of those that the same person decided on in the last hour with the same action: many small operations
    are no way round.
    Errors: `QueryTooExpensive`.
    """
    if not limits:
        return None
    earlier = fetch_rows(_EARLIER, [principal.person, str(action)])
    if count + sum(n for _, _, n in earlier) <= min(limit.above for limit in limits):
        return None
    chosen = [(one, to) for one, to, _ in earlier]
    return strictest(limits, messages_at(selection_id, ids=ids, earlier=chosen, target=target))


def messages_at(
    selection_id: int | None,
    *,
    ids: Sequence[int] = (),
    earlier: Sequence[tuple[int, str | None]] = (),
    target: str | None,
) -> list[MessagesAt]:
    """Return where the members of a selection and `ids` are now, and those of `earlier` selections.

    `target`, and the second part of an `earlier` one: the address that they are redirected to, None for none.
    Errors: `QueryTooExpensive`.
    """
    selections = [*([] if selection_id is None else [(selection_id, target)]), *earlier]
    values = {
        "ids": list(ids),
        "target": target,
        "selection": selection_id,
        "selections": [one for one, _ in selections],
        "targets": [to for _, to in selections],
    }
    with bounded(COUNT_SECONDS):
        return [
            MessagesAt(frozenset({at, back, *targets}), *counts)
            for at, back, targets, *counts in fetch_rows(_MESSAGES_AT, values)
        ]


def waiting_count(principal: Principal) -> int:
    """Return how many operations of others wait that the principal may sign off."""
    return _of_others(
        Sql("operation.ended_at IS NULL AND state = 'waiting_for_sign_off' AND sign_off_expires_at > now()"), principal
    )


def begun_without_count(principal: Principal) -> int:
    """Return how many operations of others that the principal could have signed off were begun without in a day."""
    return _of_others(Sql("broke_glass_at IS NOT NULL AND broke_glass_at > now() - interval '1 day'"), principal)


def _of_others(which: Sql, principal: Principal) -> int:
    if not principal.may(Permission.SIGN_OFF):
        return 0
    counted = Sql(
        """SELECT count(*) FROM operation JOIN selection ON selection.id = selection_id
        WHERE {which} AND requester <> {person} AND {seen}""",
        which=which,
        person=principal.person,
        seen=all_given({"selection.address_ids <@ {value}::bigint[]": visible_ids(principal)}),
    )
    return int(fetch_values(counted)[0])
