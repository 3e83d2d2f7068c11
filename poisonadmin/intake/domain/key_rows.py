"""The business keys of rows that wait for the merge, written beside them by the web process and the Spark tasks."""

import json
from collections.abc import Iterable, Iterator, Sequence

from poisonadmin.intake.domain.staged_rows import IntakeRow
from poisonadmin.messages.domain.business_keys import KeyDefinition, Loads, extract, parsed_keys
from poisonadmin.policies.domain.resolution import PolicyIndex

# message id, name, value
KeyRow = tuple[int, str, str]

KEY_COPY = "COPY business_key (message_id, name, value) FROM STDIN (FORMAT binary)"
KEY_TYPES = ("int8", "varchar", "varchar")


def key_rows(
    rows: Iterable[tuple[int, IntakeRow]], policies: PolicyIndex, *, loads: Loads = json.loads
) -> Iterator[KeyRow]:
    """Yield the rows of `business_key` for the rows with these ids, by the policy of the address each was sent to."""
    keys_of: dict[str, Sequence[KeyDefinition]] = {}
    for row_id, row in rows:
        address, payload, headers = row[0], row[2], row[4]
        keys = keys_of.get(address)
        if keys is None:
            keys = keys_of[address] = parsed_keys(policies.resolve(address).policy.business_keys)
        if keys:
            for name, value in extract(keys, payload, json.loads(headers), loads=loads).items():
                yield row_id, name, value
