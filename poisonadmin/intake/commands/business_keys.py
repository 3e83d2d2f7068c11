"""Business keys written down at intake; a policy that changes later leaves them as they are."""

from collections.abc import Iterable, Mapping

import orjson
from django.db.backends.utils import CursorWrapper

from poisonadmin.intake.domain.staged_rows import KEY_COPY, KEY_TYPES, IntakeRow, key_rows
from poisonadmin.messages.domain.business_keys import extract, parsed_keys
from poisonadmin.policies.queries.index import policy_index

_WRITE = """
INSERT INTO business_key (message_id, name, value)
SELECT %(id)s, name, value FROM unnest(%(names)s::text[], %(values)s::text[]) AS found (name, value)
"""


def write_keys(
    cursor: CursorWrapper, message_id: int, address: str, payload: bytes, headers: Mapping[str, str]
) -> None:
    """Write the keys of a message that was just taken in at `address`."""
    keys = parsed_keys(policy_index().resolve(address).policy.business_keys)
    if keys and (found := extract(keys, payload, headers, loads=orjson.loads)):
        cursor.execute(_WRITE, {"id": message_id, "names": list(found), "values": list(found.values())})


def copy_keys(cursor: CursorWrapper, rows: Iterable[tuple[int, IntakeRow]]) -> None:
    """Write the keys of rows that wait for the merge, by their ids."""
    found = list(key_rows(rows, policy_index(), loads=orjson.loads))
    if found:
        with cursor.copy(KEY_COPY) as copy:
            copy.set_types(KEY_TYPES)
            for row in found:
                copy.write_row(row)
