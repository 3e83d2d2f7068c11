"""Entries of the audit log, and attempts that were refused, as documents of the Elastic Common Schema."""

import json
from collections.abc import Mapping
from typing import Any

VERSION = "8.17.0"
LOGGER = "poisonadmin.audit"
_CATEGORIES = {"user": "iam", "token": "iam", "network": "authentication", "message": "process"}
_LOGINS = frozenset({"user.logged_in", "user.logged_out", "user.login_failed", "user.sign_on_refused"})
_FAILED = frozenset({"user.login_failed", "user.sign_on_refused"})


def audit_line(entry: Mapping[str, Any], environment: str) -> str:
    """Return the line of an entry of the audit log, whose `at` is text. `event.id` is its id, by which a line that was
    written twice is known.

    >>> row = {"id": 7, "at": "2026-11-26T01:02:03Z", "actor": "ann", "action": "user.saved", "object_type": "user"}
    >>> line = audit_line(row | {"object_id": "bob", "note": None, "details": {}, "request_id": "r"}, "local")
    >>> json.loads(line)["event"]["action"], json.loads(line)["user"]
    ('user.saved', {'name': 'ann'})
    """
    action = str(entry["action"])
    category = "authentication" if action in _LOGINS else _CATEGORIES.get(str(entry["object_type"]), "configuration")
    event = {"id": str(entry["id"]), "action": action, "outcome": "failure" if action in _FAILED else "success"}
    more = {name: entry[name] for name in ("object_type", "object_id", "note", "details") if entry[name] is not None}
    return _line(str(entry["at"]), event, category, environment, entry["actor"], entry["request_id"], more)


def refused_line(at: str, who: str, request: Mapping[str, Any], environment: str) -> str:
    """Return the line of a request that was refused: its `method`, `path`, `code`, `status` and `request_id`."""
    event = {"action": "request.refused", "outcome": "failure", "reason": request["code"]}
    more = {name: request[name] for name in ("method", "path", "status")}
    return _line(at, event, "web", environment, who, request["request_id"], more)


def _line(
    at: str, event: dict[str, Any], category: str, environment: str, who: Any, request_id: Any, more: dict[str, Any]
) -> str:
    document: dict[str, Any] = {
        "@timestamp": at,
        "ecs": {"version": VERSION},
        "event": {"kind": "event", "category": [category], "dataset": LOGGER, **event},
        "service": {"name": "poisonadmin", "environment": environment},
        "user": {"name": who},
        "poisonadmin": more,
    }
    if request_id:
        document["http"] = {"request": {"id": request_id}}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
