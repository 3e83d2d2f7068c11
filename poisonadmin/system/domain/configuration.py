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
    shows under another name than it takes them. `is_own`: everybody has some of one's own.
    """

    name: str
    route: str
    one: str
    key: tuple[str, ...] = ("name",)
    is_by_name: bool = False
    changed_by: str = "PUT"
    kept: Fields = field(default_factory=dict)
    shown_as: Mapping[str, str] = field(default_factory=dict)
    is_own: bool = False


SHARED = {"is_shared": True}
# Single sign-on gives the others their roles, at each login.
OPEN_HERE = {"is_active": True, "has_sign_on": False}
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
        "saved_reports", "api-saved-reports", "api-saved-report", kept=SHARED, shown_as={"report": "asked"}, is_own=True
    ),
    ConfigurationKind("views", "api-views", "api-view", changed_by="POST", kept=SHARED, is_own=True),
    ConfigurationKind("accounts", "api-accounts", "api-account", is_by_name=True, changed_by="PATCH", kept=OPEN_HERE),
)
# Channels that are sent to by a secret, and what is shown in its place.
HIDDEN = ("slack", "teams", "pagerduty")
_SHOWN = re.compile(r"\bsecret [0-9a-f]{8}$")
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
    if row.get("channel") in HIDDEN:
        # Of PagerDuty an address may stand beside the secret.
        found["to"] = [_reference(kind, row, "to") if _SHOWN.search(one) else one for one in row["to"]]
    return found


def _reference(kind: ConfigurationKind, row: Fields, name: str) -> dict[str, str]:
    text = re.sub(r"[^A-Z0-9]+", "_", f"{named(kind, row)}_{name}".upper())
    return {REFERENCE: text}


def without_references(fields: Fields) -> dict[str, Any]:
    """Return the fields in which nothing is a reference.

    >>> without_references({"name": "shop", "secrets": {"X-Key": {"$env": "X"}}, "to": [{"$env": "Y"}]})
    {'name': 'shop'}
    """
    return {name: value for name, value in fields.items() if not unresolved({name: value})}


def unresolved(value: Any, place: str = "") -> list[str]:
    """Return where references stand that the client has not resolved.

    >>> unresolved({"settings": {"a": {"$env": "A"}}, "to": ["x", {"$env": "Y"}]})
    ['settings.a', 'to.1']
    """
    if isinstance(value, Mapping):
        if set(value) == {REFERENCE}:
            return [place]
        return [one for name, inner in value.items() for one in unresolved(inner, f"{place}.{name}".strip("."))]
    if isinstance(value, list):
        return [one for n, inner in enumerate(value) for one in unresolved(inner, f"{place}.{n}")]
    return []


def given_of(before: Fields, fields: Fields, *, with_secrets: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that are given for an object that is there, and the secrets to be written.

    A secret that is not resolved at all stays, and so do all without `with_secrets`.

    >>> given_of({"to": [{"$env": "X"}]}, {"to": ["https://x"], "name": "a"}, with_secrets=False)
    ({'name': 'a'}, {})
    """
    secret = {name for name in fields if name == "secrets" or (name == "to" and unresolved(before.get("to")))}
    given = {name: value for name, value in fields.items() if name not in secret}
    written_anew = {name: fields[name] for name in secret if with_secrets and _is_partly_given(fields[name])}
    return given, written_anew


def _is_partly_given(value: Any) -> bool:
    values = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(values, list) and any(not unresolved(one) for one in values)


def differences(before: Fields, after: Fields) -> dict[str, list[Any]]:
    """Return the fields whose values are not the same, each with both.

    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4})
    {'b': [2, 3], 'c': [None, 4]}
    """
    names = [*before, *(name for name in after if name not in before)]
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}
