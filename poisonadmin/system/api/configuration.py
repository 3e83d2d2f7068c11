"""The whole configuration as one document: `/configuration/`.

Its objects are read and changed by the views that clients use one by one, so rights, checks and the audit log are the
same. They are called in this process, in one transaction.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.db import connection, transaction
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.rules.domain.rules import Stage
from poisonadmin.system.domain.configuration import (
    HIDDEN,
    KINDS,
    ConfigurationKind,
    Fields,
    differences,
    given_of,
    key_of,
    named,
    unresolved,
    without_references,
    written,
)
from poisonadmin.web.api.contract import JsonObject, StrictSerializer, contract
from poisonadmin.web.api.inside import ViewRefused, call_view, fields_taken
from poisonadmin.web.api.view import ApiView, route

DOCUMENT = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}}
CHANGE = {
    "type": "object",
    "properties": {
        "object": {"type": "string", "description": "Its kind and name, such as `destinations/shop`."},
        "change": {"type": "string", "enum": ["create", "change", "remove", "move"]},
        "fields": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {}},
            "description": "Each field that differs, with the value before and the value after.",
        },
    },
    "required": ["object", "change", "fields"],
}
APPLIED = {
    "type": "object",
    "properties": {"changes": {"type": "array", "items": CHANGE}, "is_applied": {"type": "boolean"}},
    "required": ["changes", "is_applied"],
}
MOST_NAMED = 20


class ConfigurationRefused(PoisonAdminError):
    """Raised when objects of a document are refused; nothing of it is applied then."""

    code = "configuration_refused"


class ConfigurationInput(StrictSerializer):
    """`configuration`: kinds with their objects; a kind that is left out stays, and so does a field. `is_check`: say
    what would change and change nothing. `prune`: remove the objects of the named kinds that are not in the document.
    `secrets`: write the secrets that are given to objects that are there, too.
    """

    configuration = JsonObject()
    is_check = serializers.BooleanField(required=False, default=False)
    prune = serializers.BooleanField(required=False, default=False)
    secrets = serializers.BooleanField(required=False, default=False)


class Configuration(ApiView):
    """`/configuration/`."""

    @contract(Permission.CONFIGURE, "configuration", {200: DOCUMENT})
    def get(self) -> Response:
        """Return destinations, policies, sources, rules, alerts and the rest as one document, without secrets.

        Of views and saved reports it has the shared ones of the caller.
        """
        inside = _Inside(self.request._request, self.principal)  # noqa: SLF001
        try:
            document = {
                kind.name: [inside.written(kind, row) for row in inside.rows(kind) if _is_kept(kind, row)]
                for kind in KINDS
            }
        except ViewRefused as refused:
            raise NotAllowed(f"The configuration cannot be written whole: {refused}") from None
        return Response(document)

    @contract(Permission.CONFIGURE, "configuration", {200: APPLIED}, body=ConfigurationInput)
    def post(self) -> Response:
        """Bring the configuration to what the document says, in one transaction; 400 names every refused object."""
        body = self.body
        given = {kind.name: body["configuration"].get(kind.name) for kind in KINDS}
        if unknown := set(body["configuration"]) - set(given):
            known = ", ".join(given)
            raise ConfigurationRefused(f"{', '.join(sorted(unknown))}: no kind of configuration; there are {known}.")
        inside = _Inside(self.request._request, self.principal)  # noqa: SLF001
        with transaction.atomic(), connection.cursor() as cursor:
            locks.hold(cursor, Lock.CONFIGURATION)  # before those that single objects take
            changes = []
            for kind in KINDS:
                if (wanted := given[kind.name]) is not None:
                    changes += inside.applied(kind, wanted, prune=body["prune"], with_secrets=body["secrets"])
            if inside.refusals:
                more = f"\nand {len(inside.refusals) - MOST_NAMED} more" if len(inside.refusals) > MOST_NAMED else ""
                raise ConfigurationRefused("\n".join(inside.refusals[:MOST_NAMED]) + more)
            is_applied = bool(changes) and not body["is_check"]
            if is_applied:
                details = {"changes": [f"{one['change']} {one['object']}" for one in changes]}
                audit.record(self.principal.name, "configuration.applied", "configuration", "", details=details)
            transaction.set_rollback(body["is_check"])
        return Response({"changes": changes, "is_applied": is_applied})


@dataclass(frozen=True)
class _Change:
    kind: ConfigurationKind
    fields: Fields
    change: str
    differs: Mapping[str, list[Any]]

    def shown(self) -> dict[str, Any]:
        return {"object": named(self.kind, self.fields), "change": self.change, "fields": dict(self.differs)}


class _Inside:
    """Calls views for who has sent a request. `refusals`: what they refused, each with the object's name."""

    def __init__(self, request: HttpRequest, principal: Principal) -> None:
        self._request = request
        self._principal = principal
        self.refusals: list[str] = []

    def rows(self, kind: ConfigurationKind) -> Iterator[dict[str, Any]]:
        """Yield the objects of a kind as the API shows them, of views and reports one's own. Errors: `ViewRefused`."""
        query = ""
        while True:
            page = self._call("GET", kind.route, query=query)
            yield from (row for row in page["results"] if not kind.is_own or row["owner"] in self._principal.own_names)
            if page["next"] is None:
                return
            query = urlsplit(page["next"]).query

    def written(self, kind: ConfigurationKind, row: Fields) -> dict[str, Any]:
        """Return an object as it stands in a document."""
        taken = fields_taken(kind.route, "post")
        fields = [*taken, *(["is_enabled"] if self._has_switch(kind) else [])]
        return written(kind, row, list(dict.fromkeys(fields)))

    def applied(self, kind: ConfigurationKind, wanted: Any, *, prune: bool, with_secrets: bool) -> list[dict[str, Any]]:
        """Bring the objects of a kind to what is wanted; return what has changed."""
        if not isinstance(wanted, list) or not all(isinstance(one, dict) for one in wanted):
            self.refusals.append(f"{kind.name}: must be a list of objects.")
            return []
        changes: list[_Change | None] = []
        seen: set[tuple[str, ...]] = set()
        try:
            there = {key_of(kind, row): row for row in self.rows(kind)}
        except ViewRefused as refused:
            self.refusals.append(f"{kind.name}: {refused}")
            return []
        for fields in wanted:
            key = key_of(kind, fields)
            try:
                if key in seen:
                    raise ViewRefused("is in the document twice")
                changes.append(self._brought(kind, there.get(key), fields, with_secrets=with_secrets))
            except ViewRefused as refused:
                self.refusals.append(f"{named(kind, fields)}: {refused}")
            seen.add(key)
        if prune:
            gone = [row for key, row in there.items() if key not in seen and _is_kept(kind, row)]
            changes += [self._removed(kind, row) for row in gone]
        if kind.name == "rules" and not self.refusals:
            changes += self._in_order(kind, [key_of(kind, one) for one in wanted])
        return [change.shown() for change in changes if change is not None]

    def _in_order(self, kind: ConfigurationKind, keys: list[tuple[str, ...]]) -> list[_Change]:
        """Have the rules of each stage apply in the order of the document, before those that are not in it."""
        place = {key: n for n, key in enumerate(keys)}
        changes = []
        for stage in Stage:
            before = [row for row in self.rows(kind) if row["stage"] == stage]
            after = sorted(before, key=lambda row: place.get(key_of(kind, row), len(keys)))
            now = list(before)
            for n, row in enumerate(after):
                if now[n] is not row:
                    try:
                        self._call("POST", f"{kind.one}-move", {"position": n + 1}, **_path(kind, row))
                    except ViewRefused as refused:
                        self.refusals.append(f"{named(kind, row)}: {refused}")
                        return []
                    now.remove(row)
                    now.insert(n, row)
            if after != before:
                names = [[row["name"] for row in rows] for rows in (before, after)]
                changes.append(_Change(kind, {"name": stage}, "move", {"order": names}))
        return changes

    def _brought(self, kind: ConfigurationKind, row: Any, fields: Fields, *, with_secrets: bool) -> _Change | None:
        """Create or change an object; return what has changed, None where nothing has. Errors: `ViewRefused`."""
        if self._has_switch(kind) and not isinstance(fields.get("is_enabled", True), bool):
            raise ViewRefused("is_enabled: must be true or false")
        with transaction.atomic():
            if row is None:
                if left := unresolved(fields):
                    raise ViewRefused(f"{left[0]}: the variable is not set, and there is no value to keep")
                body = {name: one for name, one in fields.items() if name != "is_enabled" or not self._has_switch(kind)}
                self._switched(kind, self._call("POST", kind.route, body), fields)
                return _Change(kind, fields, "create", {})
            before = self.written(kind, row)
            body, secret = given_of(before, fields, with_secrets=with_secrets)
            if left := unresolved(body) or (unresolved(secret) if with_secrets else []):
                raise ViewRefused(f"{left[0]}: the variable is not set; all secrets of an object are given, or none")
            if differences({name: before.get(name) for name in body}, body) or secret:
                changed = self._changed(kind, row, before, {**body, **secret})
                found = differences(before, self.written(kind, self._switched(kind, changed, {**before, **fields})))
                # A value that is stored in another form than it is written in is no change.
                transaction.set_rollback(not found and not secret)
                if found or secret:
                    return _Change(kind, fields, "change", found | {name: ["…", "given anew"] for name in secret})
        return None

    def _switched(self, kind: ConfigurationKind, row: Fields, fields: Fields) -> Fields:
        """Switch an object on or off, where the fields say so and it is not so; return it as it is then."""
        wanted = fields.get("is_enabled") if self._has_switch(kind) else None
        if wanted is None or row["is_enabled"] is wanted:
            return row
        action = f"{kind.one}-{'enable' if wanted else 'disable'}"
        self._call("POST", action, self._reason(kind), **_path(kind, row))
        return {**row, "is_enabled": wanted}

    def _changed(self, kind: ConfigurationKind, row: Fields, before: Fields, body: Fields) -> Any:
        if kind.changed_by == "POST":
            taken, path, route_name = fields_taken(kind.route, "post"), {}, kind.route
        else:
            path, route_name = _path(kind, row), kind.one
            taken = fields_taken(kind.one, kind.changed_by.lower(), **path)
        shown = {"to": row["to"]} if row.get("channel") in HIDDEN else {}  # sent back, it leaves the secret as it is
        whole = {**without_references(before), **shown, **body}
        wanted = {name: value for name, value in whole.items() if name in taken}
        return self._call(kind.changed_by, route_name, wanted, **path)

    def _removed(self, kind: ConfigurationKind, row: Fields) -> _Change | None:
        try:
            with transaction.atomic():
                self._call("DELETE", kind.one, **_path(kind, row))
        except ViewRefused as refused:
            self.refusals.append(f"{named(kind, row)}: {refused}")
            return None
        return _Change(kind, row, "remove", {})

    def _has_switch(self, kind: ConfigurationKind) -> bool:
        try:
            reverse(f"{kind.one}-enable", kwargs={"name": "x"} if kind.is_by_name else _path(kind, {"id": 1}))
        except NoReverseMatch:
            return False
        return True

    def _reason(self, kind: ConfigurationKind) -> dict[str, Any]:
        taken = {"reason": "configuration applied", "without_dry_run": True}
        return taken if kind.name == "rules" else {"reason": taken["reason"]}

    def _call(self, *call: Any, **path: Any) -> Any:
        return call_view(self._request, *call, **path)


def _is_kept(kind: ConfigurationKind, row: Fields) -> bool:
    return all(row[name] == value for name, value in kind.kept.items())


def _path(kind: ConfigurationKind, row: Fields) -> dict[str, Any]:
    """Return what the path of an object has in it."""
    if kind.is_by_name:
        return {"name": row["name"]}
    return {f"{kind.one.removeprefix('api-').replace('-', '_')}_id": row["id"]}


urlpatterns = [route("configuration/", Configuration, name="api-configuration")]
