"""The configuration of an installation as a document: its kinds of objects, what is left out, and what differs.

A secret is never in the document. In its place stands a reference, `{"$env": "SHOP_AUTHORIZATION"}`, which the command
line resolves on the client's machine; what it does not resolve is not sent, and the stored secret stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REFERENCE = "$env"
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ConfigurationKind:
    """Objects of one kind.

    `route`, `one`: the routes of the list and of one object. `key`: the fields that tell objects apart. `is_by_name`:
    paths have the name, and not an id. `kept`: objects with other values are left out. `shown_as`: fields that the API
    shows under another name than it takes them.
    """

    name: str
    route: str
    one: str
    key: tuple[str, ...] = ("name",)
    is_by_name: bool = False
    changed_by: str = "PUT"
    kept: Fields = field(default_factory=dict)
    shown_as: Mapping[str, str] = field(default_factory=dict)


SHARED = {"is_shared": True}
# In the order in which they build on each other.
KINDS = (
    ConfigurationKind("destinations", "api-destinations", "api-destination", is_by_name=True),
    ConfigurationKind("policies", "api-policies", "api-policy", ("match",)),
    ConfigurationKind("sources", "api-sources", "api-source"),
    ConfigurationKind("rules", "api-rules", "api-rule"),
    ConfigurationKind(
        "masking_rules", "api-masking-rules", "api-masking-rule", ("match", "json_path", "header", "key", "regex")
    ),
    ConfigurationKind("sign_off_rules", "api-sign-off-rules", "api-sign-off-rule", ("match", "action")),
    ConfigurationKind("alert_rules", "api-alert-rules", "api-alert-rule"),
    ConfigurationKind("restart_jobs", "api-restart-jobs", "api-restart-job"),
    ConfigurationKind(
        "saved_reports", "api-saved-reports", "api-saved-report", kept={"is_shared": True}, shown_as={"report": "asked"}
    ),
    ConfigurationKind("views", "api-views", "api-view", changed_by="POST", kept={"is_shared": True}),
    ConfigurationKind(
        "accounts", "api-accounts", "api-account", is_by_name=True, changed_by="PATCH", kept={"is_active": True}
    ),
)
# A secret that has no name.
LEFT_OUT = frozenset({"password"})


def key_of(kind: ConfigurationKind, fields: Fields) -> tuple[str, ...]:
    """Return what tells an object from the others of its kind."""
    return tuple("" if fields.get(name) is None else str(fields[name]) for name in kind.key)


def named(kind: ConfigurationKind, fields: Fields) -> str:
    """Return an object's name for people.

    >>> named(KINDS[0], {"name": "shop"})
    'destinations/shop'
    """
    return f"{kind.name}/{' '.join(filter(None, key_of(kind, fields)))}"


def written(kind: ConfigurationKind, row: Fields, names: Sequence[str]) -> dict[str, Any]:
    """Return an object as it stands in a document. `row`: as the API shows it; `names`: the fields that it takes.

    >>> written(KINDS[0], {"id": 7, "name": "shop", "kind": "http", "secret_names": ["X-Key"]}, ["name", "kind"])
    {'name': 'shop', 'kind': 'http', 'secrets': {'X-Key': {'$env': 'DESTINATIONS_SHOP_X_KEY'}}}
    """
    key_first = dict.fromkeys([*(name for name in kind.key if name in names), *names])
    shown = {name: kind.shown_as.get(name, name) for name in key_first if name not in LEFT_OUT}
    found = {name: row[one] for name, one in shown.items() if one in row}
    if secrets := row.get("secret_names"):
        found["secrets"] = {name: _reference(kind, row, name) for name in secrets}
    if row.get("channel") in ("slack", "teams", "pagerduty"):
        found["to"] = [_reference(kind, row, "to")]
    return found


def _reference(kind: ConfigurationKind, row: Fields, name: str) -> dict[str, str]:
    text = re.sub(r"[^A-Z0-9]+", "_", f"{named(kind, row)}_{name}".upper())
    return {REFERENCE: text}


def without_references(value: Any) -> Any:
    """Return what a client has written, without the references that it has not resolved.

    >>> without_references({"url": "http://x", "secrets": {"X-Key": {"$env": "X"}}, "to": [{"$env": "Y"}]})
    {'url': 'http://x'}
    """
    if not isinstance(value, Mapping):
        return value
    found = {name: without_references(one) for name, one in value.items() if not _has_reference(one)}
    return {name: one for name, one in found.items() if one != {} or value[name] == {}}


def _has_reference(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, Mapping) and set(value) == {REFERENCE}


def differences(before: Fields, after: Fields) -> dict[str, list[Any]]:
    """Return the fields whose values are not the same, each with both.

    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4})
    {'b': [2, 3], 'c': [None, 4]}
    """
    names = [*before, *(name for name in after if name not in before)]
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}
