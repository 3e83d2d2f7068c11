"""The versions of a policy: who changed it when, what was, what is. The audit log is their record."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch
from poisonadmin.policies.queries.policies import get_policy

MOST_VERSIONS = 200


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
