"""Words of a filter about failure groups: their text, owner and tags, and whether they are snoozed."""

from collections.abc import Sequence
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.search.domain.filters import Term
from poisonadmin.search.queries.error_search import groups_holding
from poisonadmin.search.queries.group_members import visible_members

IS_SNOOZED = "said.snoozed_until > now()"
_NARROWING = "SELECT said.group_id FROM group_annotation said"
# Notes are of the groups that people see.
_NOTED = {
    "group_owner": f"{_NARROWING} JOIN auth_user u ON u.id = said.owner_id WHERE u.username = ANY(%s::text[])",
    "group_tag": f"{_NARROWING} WHERE said.tags && %s::varchar[]",
    # What nobody has said anything of is not snoozed either.
    "snoozed": f"""SELECT g.id FROM failure_group g LEFT JOIN group_annotation said ON said.group_id = g.id
        WHERE g.merged_into_id IS NULL AND (({IS_SNOOZED}) IS TRUE) = ANY(%s)""",  # noqa: S608  (a constant)
}
FIELDS = frozenset({"failure", *_NOTED})


def as_groups(term: Term, principal: Principal) -> Term:
    """Return a term of `FIELDS` as one of `group`, with the ids of groups that people see; any other as it is.

    Only groups with a message that the principal sees are compared with a text. The message of a group's sample is
    compared only for who sees every address: it may be on any.
    """
    if term.field not in FIELDS:
        return term
    if term.field == "failure":
        visible = visible_members(principal)
        holding = groups_holding([str(value) for value in term.values], visible, with_sample=principal.sees_everything)
        if visible is not None:
            holding = sorted(set(holding) & set(visible))
        return _of(_ids(f"SELECT {SEEN_AS} FROM failure_group g WHERE g.id = ANY(%s)", holding), term.negated)  # noqa: S608
    return _of(_ids(_NOTED[term.field], list(term.values)), term.negated)


def _ids(sql: str, values: Sequence[Any]) -> list[int]:
    return fetch_values(sql, [list(values)])


def _of(group_ids: Sequence[int], negated: bool) -> Term:
    return Term("group", tuple(sorted(set(group_ids))), negated=negated)
