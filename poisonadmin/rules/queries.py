"""The table of rules, and what dry runs have found."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.masking import masks_of, require_clear
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id, fetch_rows
from poisonadmin.core.queries.sql import Sql, all_given
from poisonadmin.policies.domain.circles import dead_letter_way
from poisonadmin.policies.queries import policy_index
from poisonadmin.rules.domain.content_rules import ContentRule, ContentRules, compile_content_rule
from poisonadmin.rules.domain.failure_rules import FailureRule, compile_failure_rule
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import RuleDefinition, RuleFailed, RuleFields, Stage, reads_content, reads_payloads
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import RunFields, latest_run
from poisonadmin.store.models.lane import Address

_SELECT = Sql(
    """SELECT r.id, r.stage, r.position, {columns}, r.is_enabled,
 r.is_enabled AND (r.ends_at IS NULL OR r.ends_at > now()) AS is_in_force,
 r.checked_version IS NOT DISTINCT FROM r.version AS is_dry_run, r.hits, r.last_hit_at, r.fault, r.version,
 r.updated_by, r.updated_at FROM rule r""",
    columns=columns(RuleFields, "r"),
)
_TITLES = "SELECT id, title FROM failure_group WHERE id = ANY(%s)"
_RULES = """
SELECT id, name, version, match::text, action::text FROM rule
WHERE stage = %(stage)s AND is_enabled AND (ends_at IS NULL OR ends_at > now()) ORDER BY position, id
"""


class DryRunNotFound(NotFound):
    """Raised when the rule was never dry-run."""


@dataclass(frozen=True, kw_only=True)
class RuleRow(RuleFields, Versioned):
    """One row of the table of rules. Of those that match, the enabled one with the lowest `position` decides.

    `is_in_force`: it is enabled and has not ended. `is_dry_run`: a dry run has looked at this version. `hits` counts
    what it has decided since its conditions or its action were last changed. `fault`: why it switched itself off.
    `warnings`: what looks wrong with it (R15).
    """

    id: int
    stage: str
    position: int
    owner: str
    is_enabled: bool
    is_in_force: bool
    is_dry_run: bool
    hits: int
    last_hit_at: datetime | None
    fault: str | None
    version: int
    updated_by: str
    updated_at: datetime
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class DryRunPlace:
    """The number of messages of a failure group (None: of none) on an address that a rule would decide on; some ids."""

    address: str
    group_id: int | None
    group_title: str | None
    matched: int
    sample_ids: list[int]


@dataclass(frozen=True)
class DryRunResult:
    """The numbers of messages read so far and of matches. `found`: the places with most matches, at most 200."""

    read: int
    matched: int
    found: Sequence[DryRunPlace]


@dataclass(frozen=True)
class DryRunRow(RunFields):
    """A dry run of a rule on the messages that waited or were undecided (TBDL, NDLV) at the time of the request.

    `cut_off`: the last message that is read.
    """

    rule_id: int
    rule_version: int
    cut_off: int
    result: DryRunResult


def covers_rule(principal: Principal, match: Mapping[str, Any]) -> bool:
    """Return whether every address that a rule may concern is in scope."""
    return principal.covers(match.get("address", ANY_WORDS))


def list_rules(*, principal: Principal, stage: str | None = None) -> list[RuleRow]:
    """Return the rules in the order in which they are asked, those before deliveries first."""
    principal.require(Permission.READ)
    found = Sql(
        "{rules} WHERE {which} ORDER BY r.stage DESC, r.position, r.id",
        rules=_SELECT,
        which=all_given({"r.stage = {value}": str(Stage(stage)) if stage else None}),
    )
    rows = fetch(RuleRow, found)
    return _with_warnings([row for row in rows if covers_rule(principal, row.match)])


def _with_warnings(rows: list[RuleRow]) -> list[RuleRow]:
    policies = policy_index()

    def goes_round(row: RuleRow) -> bool:
        """Return whether what the rule redirects may come back to an address of the rule."""
        rule = RuleDefinition(row.id, row.name, row.version, row.match, row.action)
        target = row.action.get("address")
        return target is not None and any(rule.covers(one) for one in dead_letter_way(policies, target))

    why = "What it redirects may fail, and be moved back to where the rule holds: it is then `dead_letter_loop`."
    return [replace(row, warnings=(why,)) if goes_round(row) else row for row in rows]


def get_rule(rule_id: int, *, principal: Principal) -> RuleRow:
    """Return the rule; raise NotAllowed, NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(RuleRow, f"{_SELECT} WHERE r.id = %s", rule_id)
    if found is None or not covers_rule(principal, found.match):
        raise NotFound(f"There is no rule {rule_id}.")
    return _with_warnings([found])[0]


def latest_dry_run(rule_id: int, *, principal: Principal) -> DryRunRow:
    """Return the rule's latest dry run, ended or not.

    Errors: `NotAllowed`, `NotFound`, `DryRunNotFound`, `Masked`.
    """
    rule = get_rule(rule_id, principal=principal)
    run = latest_run(KindName.DRY_RUN, {"rule_id": rule_id})
    if run is None:
        raise DryRunNotFound(f"The rule {rule_id} was never dry-run.")
    is_former = run.params["rule_version"] != rule.version
    require_readable(None if is_former else definition_of(rule), principal)
    result = run.result or {"read": 0, "matched": 0, "found": []}
    found = DryRunResult(result["read"], result["matched"], _places(result["found"], principal))
    return DryRunRow(**run.shown, **run.params, result=found)


def definition_of(row: Any) -> RuleDefinition:
    """Return the rule that a row of either kind is."""
    return RuleDefinition(row.id, row.name, row.version, row.match, row.action)


def covered_by(rule: RuleDefinition) -> list[int]:
    """Return the ids of the addresses of the rule."""
    return [address_id for address_id, name in Address.objects.values_list("id", "name") if rule.covers(name)]


def require_readable(rule: RuleDefinition | None, principal: Principal) -> None:
    """Raise where what a rule finds would tell what the principal may not read. None: a former one, of which nothing
    is known. Errors: `NotAllowed`, `Masked`.
    """
    if rule is None or reads_payloads(rule.match):
        principal.require(Permission.READ_PAYLOAD)
    if rule is None or reads_content(rule.match):
        where = Sql("TRUE") if rule is None else Sql("m.address_id = ANY({ids})", ids=covered_by(rule))
        messages = Sql("FROM message m WHERE {where}", where=where)
        require_clear(messages, principal, "Who tries a rule on them has to read them whole.")


def _places(stored: Sequence[Mapping[str, Any]], principal: Principal) -> list[DryRunPlace]:
    ids = sorted({one["group_id"] for one in stored if one["group_id"] is not None})
    masks = masks_of(principal)
    titles = {row["id"]: masks.title(row["id"], row["title"]) for row in fetch(dict, _TITLES, [ids])} if ids else {}
    return [
        DryRunPlace(one["address"], one["group_id"], titles.get(one["group_id"]), one["matched"], list(one["samples"]))
        for one in stored
    ]


@dataclass(frozen=True)
class FailureTable:
    """The enabled rules in their order, and those among them that cannot be asked."""

    rules: list[FailureRule] = field(default_factory=list)
    broken: list[RuleFailed] = field(default_factory=list)


def failure_rules() -> FailureTable:
    """Return the enabled rules after a failure, as they stand in this transaction."""
    table = FailureTable()
    for row in fetch_rows(_RULES, {"stage": str(Stage.AFTER)}):
        try:
            table.rules.append(_compiled(*row))
        except RuleFailed as failed:
            table.broken.append(failed)
    return table


def content_rules() -> ContentRules:
    """Return the enabled rules before deliveries, as they stand in this transaction; those that can be asked."""
    found: list[ContentRule] = []
    for row in fetch_rows(_RULES, {"stage": str(Stage.BEFORE)}):
        try:
            found.append(_compiled_before(*row))
        except RuleFailed:
            continue
    return ContentRules(found)


def names_before(addresses: Collection[str], *, principal: Principal) -> list[str]:
    """Return the names of the enabled rules before deliveries that concern one of these addresses, in their order.

    Only of those that the principal sees. Their other conditions are not looked at.
    """
    principal.require(Permission.READ)
    return [
        one.rule.name
        for one in content_rules().rules
        if any(map(one.rule.covers, addresses)) and covers_rule(principal, one.rule.match)
    ]


@lru_cache(maxsize=1024)
def _compiled_before(rule_id: int, name: str, version: int, match: str, action: str) -> ContentRule:
    rule = RuleDefinition(rule_id, name, version, json.loads(match), json.loads(action))
    return compile_content_rule(rule, compile_schema=compile_schema)


@lru_cache(maxsize=1024)
def _compiled(rule_id: int, name: str, version: int, match: str, action: str) -> FailureRule:
    return compile_failure_rule(RuleDefinition(rule_id, name, version, json.loads(match), json.loads(action)))
