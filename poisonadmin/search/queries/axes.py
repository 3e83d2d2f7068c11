"""The axes of the counters, which messages can share, and the names of their values."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.search.domain.words import WORDS

# What a filter calls it, and what the counters and `message` call it.
COLUMNS = {word.name: word.column for word in WORDS if word.column}
ADDRESSES = ("address", "original_address")


@dataclass(frozen=True)
class AxisValue:
    """`value` is what a filter takes (`?state=NDLV`, `?group=7`), `label` what to call it."""

    value: str
    label: str


def named(keys: Mapping[str, Collection[str]]) -> dict[tuple[str, str], AxisValue]:
    """Return what the values of the columns are called, by field and value; groups and addresses are looked up."""

    def ids(*fields: str) -> list[int]:
        return sorted({int(key) for field in fields for key in keys.get(field, ())})

    rows = fetch_rows(
        "SELECT 'group', id::text, title FROM failure_group WHERE id = ANY(%s)"
        " UNION ALL SELECT 'address', id::text, name FROM address WHERE id = ANY(%s)",
        [ids("group"), ids(*ADDRESSES)],
    )
    labels = {(table, key): label for table, key, label in rows}
    found = {}
    for field, some in keys.items():
        for key in some:
            label = labels.get(("address" if field in ADDRESSES else field, key), key)
            found[field, key] = AxisValue(label if field in ADDRESSES else key, label)
    return found
