"""Aliases of fingerprints: the fingerprints that failures have now, of which archived files have former ones.

Files are not written anew for a name; each reader of them puts the present one in its place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Of all failures with a fingerprint, and of single failures of messages in some files.
ALIASES = """
WITH chosen AS (
    SELECT * FROM fingerprint_alias WHERE message_id IS NULL
    UNION ALL
    SELECT one.* FROM archive_file AS f JOIN fingerprint_alias AS one ON one.message_id BETWEEN f.first_id AND f.last_id
    WHERE f.path = ANY(%s)
)
SELECT former, message_id, attempt_number, chosen.fingerprint, g.title, coalesce(g.merged_into_id, g.id)
FROM chosen LEFT JOIN failure_group AS g ON g.fingerprint = chosen.fingerprint
"""


class Alias(NamedTuple):
    """The present fingerprint of failures with a former one, with title and number of its group; None without one."""

    fingerprint: str
    title: str | None = None
    group_id: int | None = None


@dataclass(frozen=True)
class AliasedTable:
    """The columns of a table of files that tell which failure a row is about, and those that an alias changes."""

    message_id: str
    attempt_number: str | None
    changed: Mapping[str, str]

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that a reader needs in order to find a row's alias."""
        return tuple(one for one in (self.message_id, self.attempt_number, "fingerprint") if one)


# A row of `messages` has the last failure of its group.
ALIASED = {
    "attempts": AliasedTable("message_id", "attempt_number", {"fingerprint": "fingerprint", "title": "title"}),
    "messages": AliasedTable("id", None, {"fingerprint": "fingerprint", "failure": "title", "group_id": "group_id"}),
}


class Aliases:
    """The aliases of the failures in some files."""

    def __init__(self, rows: Iterable[tuple[str, int | None, int | None, str, str | None, int | None]] = ()) -> None:
        self._found = {tuple(row[:3]): Alias(*row[3:]) for row in rows}
        self.former = frozenset(key[0] for key in self._found)

    def of(self, former: str | None, message_id: int, attempt_number: int | None) -> Alias | None:
        """Return the alias of a failure with a fingerprint; None where it keeps it.

        >>> aliases = Aliases([("a", None, None, "A", None, None), ("a", 7, 1, "B", None, None)])
        >>> [aliases.of(*one).fingerprint for one in [("a", 7, 1), ("a", 7, 2), ("a", 8, 1)]], aliases.of("b", 7, 1)
        (['B', 'A', 'A'], None)
        """
        return self._found.get((former, message_id, attempt_number)) or self._found.get((former, None, None))

    def applied(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row of a table in `ALIASED` as it is seen now."""
        names = ALIASED[table]
        number = None if names.attempt_number is None else row[names.attempt_number]
        alias = self.of(row["fingerprint"], row[names.message_id], number)
        if alias is None:
            return row
        now = {column: getattr(alias, name) for column, name in names.changed.items() if column in row}
        return row | {column: value for column, value in now.items() if value is not None}
