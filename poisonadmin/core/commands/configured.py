"""Saving what people configure: locked, of the version that was read, and audited with what has changed."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from django.db import connection, models, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import NEW, require_version
from poisonadmin.core.domain.locks import Lock

Row = TypeVar("Row", bound=models.Model)


def save(
    table: type[Row],
    key: Mapping[str, Any],
    write: Callable[[Row | None], Mapping[str, Any]],
    *,
    principal: Principal,
    expected_version: int | None,
    audited: Collection[str],
    require_seen: Callable[[Row], Any] = lambda _: None,
) -> Row:
    """Create or replace the row of this key, and return it. Its name is that of the key, or made of the key's parts.

    `write`: returns the columns in place of the row that is stored, None where there is none; it raises what speaks
    against that. `audited`: the columns that the audit log keeps, and what they were. `require_seen`: raises where the
    principal does not see the row that is stored.
    Errors: `AlreadyExists`, `PreconditionFailed`, and those of `write` and `require_seen`.
    """
    rows = table._default_manager  # noqa: SLF001  (Django documents both names)
    meta = table._meta  # noqa: SLF001
    name = str(key["name"]) if "name" in key else " ".join(str(part or "any")[:200] for part in key.values())
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # two who create the same name at once must not replace one another
        before: Any = rows.select_for_update().filter(**key).first()
        if before is not None and expected_version != NEW:
            require_seen(before)
        require_version(f"{meta.verbose_name} {name}", before, expected_version)
        values = {**write(before), "version": before.version + 1 if before else 1}
        if hasattr(table, "updated_at"):
            values["updated_at"] = Now()
        details = {column: values[column] for column in audited}
        was = {column: getattr(before, column) for column in audited} if before else details
        row, _ = rows.update_or_create(**key, defaults=values)
        changed = {column: value for column, value in was.items() if value != details[column]}
        more = {"was": changed} if changed else {}
        audit.record(principal.name, f"{meta.db_table}.saved", meta.db_table, name, details=details | more)
    row.refresh_from_db()
    return row
