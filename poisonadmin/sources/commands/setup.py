"""Setting up what is drained: directories and the queues of brokers."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.broker_urls import parse_broker_url
from poisonadmin.brokers.domain.brokers import InvalidSource, may_keep_login, validate_broker_source, validate_login
from poisonadmin.core.commands import audit, configured
from poisonadmin.core.commands.locks import try_lock
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.errors import NEW, AlreadyExists, PoisonAdminError, all_checked
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import mistake_in
from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.core.queries.rows import execute
from poisonadmin.core.queries.sql import Sql, name
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.sources.domain.roots import OutsideRoots, directory_below
from poisonadmin.sources.queries import get_source
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import SOURCE_KINDS, FileState, Source, SourceFile

MAX_NAME_CHARS = 100
MAX_PATH_CHARS = 4000

_TABLES = ("rejected_line", "source_file", "broker_receipt")
_PLACEHOLDERS = ("{original}", "{queue}")
_SHARED = ("url", "verify_tls", "sasl_mechanism")


class SourceBusy(PoisonAdminError):
    """Raised when a source is to be deleted while its messages are being taken in."""

    code = "source_busy"
    status = 409


def save_source(
    name: str,
    *,
    kind: str,
    config: Mapping[str, Any],
    principal: Principal,
    secrets: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
) -> Source:
    """Create or replace a source, and have it looked at soon. `secrets` None keeps those it has.

    Only someone without a limit to some addresses may: its messages name their own. A source keeps its kind. A stored
    login does not go along to another URL.
    Errors: `NotAllowed`, `InvalidSource`, `AlreadyExists`, `PreconditionFailed`.
    """
    _require_configurer(principal)
    checked, login = checked_source(name, kind=kind, config=config, secrets=secrets)

    def write(before: Source | None) -> dict[str, Any]:
        if before is not None and kind != before.kind:
            raise InvalidSource("kind", f"a source keeps its kind, and this one drains {before.kind}")
        kept = _kept_login(before, checked) if before and login is None else login or {}
        # What was wrong may be right now.
        fresh = dict.fromkeys(("next_check_at", "last_error", "last_error_at"))
        return {**fresh, "failures": 0, "kind": kind, "config": checked, "secrets": kept}

    return configured.save(
        Source,
        {"name": name},
        write,
        principal=principal,
        expected_version=expected_version,
        audited=("config",),
    )


def checked_source(
    name: str,
    *,
    kind: str,
    config: Mapping[str, Any],
    secrets: Mapping[str, Any] | None,
    needs_queues: bool = True,
) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return configuration and login as they are stored, None for a login that is kept; raise InvalidSource."""
    if kind not in SOURCE_KINDS:
        raise InvalidSource("kind", f"must be one of {', '.join(SOURCE_KINDS)}")
    found = all_checked(
        {
            "name": lambda: _checked_name(name),
            "config": lambda: checked_config(kind, config, name=name, needs_queues=needs_queues),
            "login": lambda: None if secrets is None else checked_login(kind, secrets),
        }
    )
    return found["config"], found["login"]


def _checked_name(name: str) -> str:
    if (mistake := mistake_in(name, MAX_NAME_CHARS)) is not None:
        raise InvalidSource("name", mistake)
    return name


def _kept_login(row: Source, config: dict[str, Any]) -> dict[str, str]:
    if row.secrets and not may_keep_login(row.config, config):
        raise InvalidSource("secrets", "must be given again: the stored ones are not sent to another place")
    kept: dict[str, str] = row.secrets
    return kept


def set_source_enabled(source_id: int, *, enabled: bool, principal: Principal, reason: str) -> None:
    """Switch a source on or off; off, nothing more is taken from it. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.PAUSE)
    source = get_source(source_id, principal=principal)
    with transaction.atomic():
        Source.objects.filter(id=source_id).update(is_enabled=enabled, failures=0, next_check_at=None)
        action = "source.enabled" if enabled else "source.disabled"
        audit.record(principal.name, action, "source", source.name, note=reason)


def delete_source(source_id: int, *, principal: Principal) -> None:
    """Forget a source with its files and what it set aside; its messages stay, and those that are staged are merged.

    Errors: `NotAllowed`, `NotFound`; `SourceBusy` while a run is at it, or has left a file to be merged.
    """
    _require_configurer(principal)
    source = get_source(source_id, principal=principal)
    with transaction.atomic(), connection.cursor() as cursor:
        # A run holds this lock, so no new one begins meanwhile either.
        if not try_lock(cursor, Lock.SOURCE, source_id):
            raise SourceBusy(f"The source {source.name} is being read; switch it off and try again in a moment.")
        if SourceFile.objects.filter(source_id=source_id, state=FileState.STAGED).exists():
            raise SourceBusy(f"A file of {source.name} is half taken in; leave it switched on until it is taken.")
        for table in _TABLES:
            execute(cursor, Sql("DELETE FROM {table} WHERE source_id = {id}", table=name(table), id=source_id))
        cursor.execute("DELETE FROM source WHERE id = %s", [source_id])
        audit.record(principal.name, "source.deleted", "source", source.name)


def checked_config(kind: str, config: Mapping[str, Any], *, name: str, needs_queues: bool = True) -> dict[str, Any]:
    """Return the configuration as it is stored; raise InvalidSource."""
    if kind in BROKERS:
        guard = guard_from(os.environ)
        return validate_broker_source(kind, config, name=name, guard=guard, needs_queues=needs_queues)
    return _checked_directory(config)


def checked_login(kind: str, secrets: Mapping[str, Any]) -> dict[str, str]:
    """Return the login as it is stored; raise InvalidSource."""
    if secrets and kind not in BROKERS:
        raise InvalidSource("secrets", "a directory has none")
    return validate_login(secrets)


def _require_configurer(principal: Principal) -> None:
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed("A source is for every address; this account is limited to some.")


def _checked_directory(config: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(config) - {"path"}):
        raise InvalidSource(unknown[0][:100], "unknown; known is path")
    path = config.get("path")
    if not isinstance(path, str) or not 1 <= len(path) <= MAX_PATH_CHARS or not path.isprintable():
        raise InvalidSource("path", "must be the path of a directory")
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts:
        raise InvalidSource("path", "must be absolute, without ..")
    try:
        # Where it is read this is checked again: links may be others there, and then.
        directory_below(path, settings.SOURCE_ROOTS)
    except OutsideRoots as error:
        raise InvalidSource("path", str(error)) from None
    return {"path": str(pure)}


@dataclass(frozen=True)
class Flow:
    """A way of messages that is made at once: a source, a destination and policies.

    `source`: the kind, configuration and login of what is drained; None: programs hand messages in. `destination`:
    those of a new one with the flow's name; None: none is made. `delivers_to`: one that there is. `patterns`: those of
    the policies, which all name the destination and have this preset and these settings.
    """

    name: str
    source: Mapping[str, Any] | None = None
    destination: Mapping[str, Any] | None = None
    delivers_to: str | None = None
    patterns: Sequence[str] = ()
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_enabled: bool = True


def connect(flow: Flow, *, principal: Principal) -> Source | None:
    """Make the source, the destination and the policies of a flow; return the source. Nothing is saved on an error.

    Errors: as `save_source`, `save_destination` and `save_policy`; `AlreadyExists` for a name or a pattern.
    """
    source = None
    made: dict[str, Any] = {"principal": principal, "expected_version": NEW}
    with transaction.atomic():
        if flow.source is not None:
            source = save_source(flow.name, **flow.source, **made)
            if not flow.is_enabled:
                set_source_enabled(source.id, enabled=False, principal=principal, reason="Made switched off.")
        if flow.destination is not None:
            save_destination(flow.name, **flow.destination, **made)
        delivers_to = flow.delivers_to if flow.destination is None else flow.name
        for pattern in flow.patterns:
            save_policy(pattern, preset=flow.preset, settings=flow.settings, destination=delivers_to, **made)
    return source


def way_back(kind: str, config: Mapping[str, Any], secrets: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the destination by which messages return to the broker that a source drains; `more`: its settings."""
    shared = {name: config[name] for name in _SHARED if name in config}
    return {"kind": kind, "config": shared | more, "secrets": secrets}


def name_for(kind: str, url: str) -> str:
    """Return the name of a broker that nobody names: its first host. Errors: `InvalidBrokerUrl`.

    >>> name_for("kafka", "kafka://one.example.org:9092,two.example.org")
    'one.example.org'
    """
    return parse_broker_url(kind, url).hosts[0][0][:MAX_NAME_CHARS]


def require_free(name: str) -> None:
    """Raise where no source and destination can be made of this name. Errors: `InvalidSource`, `AlreadyExists`."""
    if (mistake := mistake_in(name, MAX_NAME_CHARS, is_in_path=True)) is not None:
        raise InvalidSource("name", mistake)
    for what, model in (("source", Source), ("destination", Destination)):
        if model.objects.filter(name=name).exists():
            raise AlreadyExists(f"There is a {what} {name} already.")


def pattern_of(template: str) -> str:
    """Return the pattern that covers every address of a template; raise InvalidSource where none does.

    >>> pattern_of("rabbit.{original}"), pattern_of("{original}")
    ('rabbit.#', '#')
    """
    words = template.split(".")
    for word in words:
        if word not in _PLACEHOLDERS and any(placeholder in word for placeholder in _PLACEHOLDERS):
            raise InvalidSource("address", f"no pattern covers {template}; say which addresses are to go back")
    return ".".join(ANY_WORDS if word in _PLACEHOLDERS else word for word in words)
