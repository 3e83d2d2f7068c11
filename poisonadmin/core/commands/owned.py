"""Saves and removes views and reports that people keep under names of their own, and may share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from django.db import connection, transaction

from poisonadmin.core.commands import audit, configured
from poisonadmin.core.commands.configured import Row
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.settings import Refuse

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
) -> Row:
    """Keep something under a name, in place of the principal's own of this name, and return it.

    `words`: its kind, as a person reads it. `write`: returns further columns for the row that is stored.
    Errors: `refuse` where the principal keeps as many as one may, and those of `configured.save`.
    """

    def written(before: Row | None) -> dict[str, Any]:
        if before is None and table._default_manager.filter(owner=principal.name).count() >= MAX_OWNED:  # noqa: SLF001
            raise refuse("name", f"you have {MAX_OWNED} {words}s; remove one first.")
        return {**values, **write(before)}

    key = {"owner": principal.name, "name": values["name"]}
    how: dict[str, Any] = {"principal": principal, "expected_version": expected_version, "audited": values}
    return retried(lambda: configured.save(table, key, written, **how))


def remove_own(table: str, words: str, row: _Owned, *, principal: Principal, first: Sequence[str] = ()) -> None:
    """Remove something of one's own; an administrator removes what others share too. `first`: statements before that.

    Errors: `NotAllowed`.
    """
    if row.owner != principal.name and not principal.may(Permission.CONFIGURE):
        raise NotAllowed(f"The {words} {row.name} is {row.owner}'s; only an administrator removes it besides.")

    def remove() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in first:
                cursor.execute(statement, [row.id])
            cursor.execute(f"DELETE FROM {table} WHERE id = %s RETURNING id", [row.id])  # noqa: S608  (a constant)
            if cursor.fetchone():
                audit.record(principal.name, f"{table}.removed", table, row.name)

    retried(remove)
