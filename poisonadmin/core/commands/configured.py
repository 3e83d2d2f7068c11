"""Saving what people configure: locked, of the version that was read, and audited with what has changed.

What people keep under names of their own, and may share, is saved and removed here too.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from django.db import connection, models, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NEW, require_version
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import Refuse
from poisonadmin.core.queries.rows import execute
from poisonadmin.core.queries.sql import Sql, name

Row = TypeVar("Row", bound=models.Model)
Shortened = Mapping[str, Callable[[Any], Any]]


def save(
    table: type[Row],
    key: Mapping[str, Any],
    write: Callable[[Row | None], Mapping[str, Any]],
    *,
    principal: Principal,
    expected_version: int | None,
    audited: Collection[str],
    shortened: Shortened = MappingProxyType({}),
    require_seen: Callable[[Row], Any] = lambda _: None,
) -> Row:
    """Create or replace the row of this key, and return it. Its name is that of the key, or made of the key's parts.

    `write`: returns the columns in place of the row that is stored, None where there is none; it raises what speaks
    against that. `audited`: the columns that the audit log keeps, and what they were; `shortened`: what it keeps of
    one's value. `require_seen`: raises where the principal does not see the row that is stored.
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
        was = {column: getattr(before, column) for column in audited} if before else {}
        changed = {column: value for column, value in was.items() if value != values[column]}
        row, _ = rows.update_or_create(**key, defaults=values)
        details = _shortened({column: values[column] for column in audited}, shortened)
        more = {"was": _shortened(changed, shortened)} if changed else {}
        audit.record(principal.name, f"{meta.db_table}.saved", meta.db_table, name, details=details | more)
    row.refresh_from_db()
    return row


def _shortened(details: Mapping[str, Any], shortened: Shortened) -> dict[str, Any]:
    return {column: shortened.get(column, lambda same: same)(value) for column, value in details.items()}


MAX_OWNED = 100


class _Owned(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> str: ...


def save_own(
    table: type[Row],
    words: str,
    values: Mapping[str, Any],
    *,
    principal: Principal,
    refuse: Refuse,
    expected_version: int | None = None,
    write: Callable[[Any], Mapping[str, Any]] = lambda _: {},
    shortened: Shortened = MappingProxyType({}),
) -> Row:
    """Keep something under a name, in place of the principal's own of this name, and return it.

    `words`: its kind, as a person reads it. `write`: returns further columns for the row that is stored.
    Errors: `refuse` where the principal keeps as many as one may, and those of `save`.
    """

    def written(before: Row | None) -> dict[str, Any]:
        if before is None and table._default_manager.filter(owner=key["owner"]).count() >= MAX_OWNED:  # noqa: SLF001
            raise refuse("name", f"you have {MAX_OWNED} {words}s; remove one first.")
        return {**values, **write(before)}

    key = {"owner": principal.own_names[0], "name": values["name"]}
    how: dict[str, Any] = {"principal": principal, "expected_version": expected_version, "audited": values}
    return retried(lambda: save(table, key, written, **how, shortened=shortened))


def remove_own(table: str, words: str, row: _Owned, *, principal: Principal, first: Sequence[str] = ()) -> None:
    """Remove something of one's own; an administrator removes what others share too. `first`: statements before that.

    Errors: `NotAllowed`.
    """
    if row.owner not in principal.own_names and not principal.may(Permission.CONFIGURE):
        raise NotAllowed(f"The {words} {row.name} is {row.owner}'s; only an administrator removes it besides.")

    def remove() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in first:
                cursor.execute(statement, [row.id])
            execute(cursor, Sql("DELETE FROM {table} WHERE id = {id} RETURNING id", table=name(table), id=row.id))
            if cursor.fetchone():
                audit.record(principal.name, f"{table}.removed", table, row.name)

    retried(remove)
