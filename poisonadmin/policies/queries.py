"""Policies as written, what is in force on an address and where each value comes from, and the waits that follow."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.addresses import validate_address, validate_pattern
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, fetch, fetch_by_id, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import destinations_seen
from poisonadmin.core.queries.sql import Sql
from poisonadmin.policies.domain.circles import goes_round
from poisonadmin.policies.domain.policy import BUILT_IN_PATTERN
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec, Resolved
from poisonadmin.policies.domain.retry_decision import PlainTry, on_failure
from poisonadmin.policies.domain.retry_limits import Breaker, attempts_in_all, breakers
from poisonadmin.policies.domain.retry_series import series
from poisonadmin.policies.domain.warnings import warnings
from poisonadmin.store.models.rule import PolicyRow


def policy_index() -> PolicyIndex:
    """Return the policies as they stand in this transaction. Compiled again only when one has changed."""
    (state,) = fetch_rows("SELECT count(*), coalesce(max(id), 0), coalesce(sum(version), 0) FROM policy")
    return _compiled(*state, connection.settings_dict["NAME"])


def policy_index_with(spec: PolicySpec) -> PolicyIndex:
    """Return the policies as they would be with `spec` among them, in the place of the one with its pattern."""
    return PolicyIndex([*(one for one in _specs() if one.pattern != spec.pattern), spec])


@lru_cache(maxsize=2)
def _compiled(_count: int, _newest: int, _versions: int, _database: str) -> PolicyIndex:
    return PolicyIndex(_specs())


def _specs() -> list[PolicySpec]:
    rows = PolicyRow.objects.select_related("destination").defer("destination__secrets").order_by("id")
    return [
        PolicySpec(
            pattern=row.match,
            preset=row.preset,
            settings=row.settings,
            destination=row.destination.name if row.destination else None,
            version=row.version,
        )
        for row in rows
    ]


MAX_PREVIEW = 1000
_SELECT = """SELECT p.id, p.match, p.preset, p.settings, {name} AS destination, p.version, p.updated_by, p.updated_at
 FROM policy p LEFT JOIN destination d ON d.id = p.destination_id"""
_NAMED = _SELECT.format(name="d.name")
MOST_VERSIONS = 200


@dataclass(frozen=True)
class PolicyView(Versioned):
    """A policy as an administrator wrote it: what it sets where its pattern matches.

    `warnings`: what looks wrong with what is in force there (R5).
    """

    id: int
    match: str
    preset: str | None
    settings: Mapping[str, Any]
    destination: str | None
    version: int
    updated_by: str
    updated_at: datetime
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preview:
    """The wait after each failure in milliseconds, its terms, and what looks wrong with the policy.

    `attempts`: the failure after which a message is tried no more, `then` the state that follows and `reason` why;
    all None: it is tried for ever. `stops_at`: the failure of one message that stops its address; None: none does.
    `breakers`: every limit that stops more than the message. `in_force`: every value, with where it comes from.
    """

    delays_ms: tuple[int, ...]
    formulas: tuple[str, ...]
    attempts: int | None
    then: str | None
    reason: str | None
    stops_at: int | None
    breakers: tuple[Breaker, ...]
    warnings: tuple[str, ...]
    in_force: Resolved


def list_policies(*, principal: Principal) -> list[PolicyView]:
    """Return the policies by pattern, of those whose pattern lies within the caller's scope.

    A destination out of scope is left out.
    """
    principal.require(Permission.READ)
    seen, own = destinations_seen(principal, "d.id")
    sql = _SELECT.format(name=f"CASE WHEN {seen} THEN d.name END")
    found = [row for row in fetch(PolicyView, f"{sql} ORDER BY p.match", own) if principal.covers(row.match)]
    return _with_warnings(found)


def get_policy(policy_id: int, *, principal: Principal) -> PolicyView:
    """Return the policy; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(PolicyView, f"{_NAMED} WHERE p.id = %s", policy_id)
    if found is None or not principal.covers(found.match):
        raise NotFound(f"There is no policy {policy_id}.")
    return _with_warnings([found])[0]


def find_policy(match: str) -> PolicyView | None:
    """Return the policy of exactly this pattern, for whoever is about to write it."""
    return next(iter(_with_warnings(fetch(PolicyView, f"{_NAMED} WHERE p.match = %s", [match]))), None)


def _with_warnings(rows: list[PolicyView]) -> list[PolicyView]:
    policies = policy_index()
    return [replace(row, warnings=_warnings(policies, row.match)) for row in rows]


def _warnings(policies: PolicyIndex, pattern: str) -> tuple[str, ...]:
    return warnings(policies.resolve_pattern(pattern).policy, back_from=goes_round(policies, pattern))


def resolve_address(address: str, *, principal: Principal) -> Resolved:
    """Return the values in force on the address, known or not, and where each comes from.

    The destination is None where it is out of scope. Raise InvalidAddress; NotFound out of scope.
    """
    principal.require(Permission.READ)
    validate_address(address)
    if not principal.sees(address):
        raise NotFound(f"There is no address {address}.")
    found = policy_index().resolve(address)
    seen = Sql(
        "SELECT id FROM destination WHERE {seen} AND name = {name}",
        seen=destinations_seen(principal, "id"),
        name=found.destination,
    )
    return found if fetch_values(seen) else replace(found, destination=None)


def preview(
    preset: str | None,
    settings: Mapping[str, object],
    failures: int,
    *,
    principal: Principal,
    message_id: int | None = None,
    match: str | None = None,
) -> Preview:
    """Return the waits after the first `failures` failures, jittered as for the message where one is given.

    With `match` what is not set comes from the stored policies as for one of that pattern; without it from what is
    built in. Raise UnknownPreset, UnknownSetting, InvalidSetting, InvalidAddress, NotAllowed (a pattern out of scope).
    """
    principal.require(Permission.READ)
    pattern = BUILT_IN_PATTERN if match is None else match
    if match is not None and not principal.covers(validate_pattern(match)):
        raise NotAllowed(f"The pattern {match} reaches beyond the addresses that {principal.name} is limited to.")
    spec = PolicySpec(pattern, preset, settings)
    policies = PolicyIndex([spec]) if match is None else policy_index_with(spec)
    resolved = policies.resolve_pattern(pattern)
    policy = resolved.policy
    steps = list(itertools.islice(series(policy, None if message_id is None else PlainTry(message_id, 1)), failures))
    attempts = attempts_in_all(policy)
    end = None
    if attempts is not None:
        end = on_failure(policy, PlainTry(attempt_number=attempts, failure_count=attempts - 1))
    return Preview(
        delays_ms=tuple(
            step.terms.delay if step.decision.delay_ms is None else step.decision.delay_ms for step in steps
        ),
        formulas=tuple(step.formula for step in steps),
        attempts=attempts,
        then=str(end.state) if end else None,
        reason=str(end.reason) if end and end.reason else None,
        stops_at=None if policy.listener_max_retries is None else max(policy.listener_max_retries, 1),
        breakers=breakers(policy, failure_count=0, rollbacks_in_row=0, conversation_failures=0),
        warnings=_warnings(policies, pattern),
        in_force=resolved,
    )


@dataclass(frozen=True)
class Change:
    """One field that a version changed; None: it was, or is, not set. `field` may be `preset` or `destination`."""

    field: str
    was: Any
    now: Any


@dataclass(frozen=True)
class PolicyVersion:
    """One saved version of the policy of a pattern, or its removal, with what that changed."""

    version: int | None
    at: datetime
    by: str
    is_deleted: bool
    preset: str | None
    settings: Mapping[str, Any]
    destination: str | None
    changes: list[Change]


@dataclass(frozen=True)
class _Entry:
    at: datetime
    actor: str
    action: str
    details: Mapping[str, Any]


def policy_history(policy_id: int, *, principal: Principal) -> list[PolicyVersion]:
    """Return the versions of the pattern that the policy has, newest first, the latest two hundred.

    A policy that was deleted and made again has the versions of both. Raise NotFound.
    """
    principal.require(Permission.READ)
    match = get_policy(policy_id, principal=principal).match
    entries = fetch(
        _Entry,
        "SELECT at, actor, action, details FROM audit WHERE object_type = 'policy' AND object_id = %s"
        " AND action IN ('policy.saved', 'policy.deleted') ORDER BY id DESC LIMIT %s",
        [match, MOST_VERSIONS + 1],
    )
    before = [*(_fields(entry) for entry in entries[1:]), {}]
    return [_version(entry, was) for entry, was in zip(entries, before, strict=True)][:MOST_VERSIONS]


def _fields(entry: _Entry) -> dict[str, Any]:
    """Return what a version sets, by name; nothing where it removed the policy."""
    if entry.action == "policy.deleted":
        return {}
    whole = {name: entry.details.get(name) for name in ("preset", "destination")}
    return {name: value for name, value in whole.items() if value is not None} | dict(entry.details.get("settings", {}))


def _version(entry: _Entry, was: Mapping[str, Any]) -> PolicyVersion:
    now = _fields(entry)
    is_deleted = entry.action == "policy.deleted"
    return PolicyVersion(
        version=entry.details.get("version"),
        at=entry.at,
        by=entry.actor,
        is_deleted=is_deleted,
        preset=now.get("preset"),
        settings={} if is_deleted else entry.details.get("settings", {}),
        destination=now.get("destination"),
        changes=[
            Change(name, was.get(name), now.get(name))
            for name in sorted({*now, *was}, key=lambda name: (name not in ("preset", "destination"), name))
            if was.get(name) != now.get(name) or (name in was) != (name in now)
        ],
    )
