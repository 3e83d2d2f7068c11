"""Setting up the directories that are drained."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import transaction

from poisonadmin.domain.access import NotAllowed, Permission, Principal
from poisonadmin.domain.brokers import InvalidSource
from poisonadmin.operations import audit
from poisonadmin.store.models import Source
from poisonadmin.store.models.intake import SourceKind

MAX_PATH_CHARS = 4000


def save_source(name: str, *, kind: str, config: Mapping[str, Any], principal: Principal) -> Source:
    """Create or replace a source. Only someone without a limit to some addresses may: its files name their own.

    Errors: `NotAllowed`, `InvalidSource`.
    """
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed("A source is for every address; this account is limited to some.")
    if kind not in set(SourceKind):
        raise InvalidSource("kind", f"must be one of {', '.join(SourceKind)}")
    if not name.isprintable() or not name.strip():
        raise InvalidSource("name", "must be printable")
    checked = _checked(config)
    with transaction.atomic():
        row, _ = Source.objects.update_or_create(
            name=name, defaults={"kind": kind, "config": checked}, create_defaults={"kind": kind, "config": checked}
        )
        audit.record(principal.name, "source.saved", "source", name, details={"config": checked})
    return row


def _checked(config: Mapping[str, Any]) -> dict[str, str]:
    if unknown := sorted(set(config) - {"path"}):
        raise InvalidSource(unknown[0][:100], "unknown; known is path")
    path = config.get("path")
    if not isinstance(path, str) or not 1 <= len(path) <= MAX_PATH_CHARS or not path.isprintable():
        raise InvalidSource("path", "must be the path of a directory")
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts:
        raise InvalidSource("path", "must be absolute, without ..")
    home = PurePosixPath(settings.HOME)
    # What is no message is shown among the rejected lines: neither secrets nor devices may be read that way.
    if pure == home or pure in home.parents:
        raise InvalidSource("path", "may not hold this installation's own directory")
    if home in pure.parents and pure.parent.name != "inbox" and pure.name != "inbox":
        raise InvalidSource("path", f"inside {home} only inbox may be a source")
    if pure.parts[1] in {"proc", "sys", "dev", "etc"}:
        raise InvalidSource("path", "may not be a directory of the system")
    return {"path": str(pure)}
