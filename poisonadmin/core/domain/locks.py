"""The advisory locks and the notification channels of the database, each in one place so that no two uses share one."""

from enum import IntEnum


class Lock(IntEnum):
    """The first half of each two-part lock key; the second is the id of what is locked, of a worker the number
    that it drew at its start, or 0.

    NODE, RUN, RUN_TURNS, SOURCE, READER and WORKER are held by sessions, the others by transactions.
    TABLES is shared by those who read live rows and archived ones as one table, and taken alone by who moves rows
    between them.
    """

    NODE = 20
    RUN = 21
    CLAIM = 22
    POLICIES = 23
    TICK = 24
    STAGED_BATCH = 25
    SOURCE = 26
    IDEMPOTENCY_KEY = 27
    POISON_LIST = 28
    READER = 29
    CONFIGURATION = 30
    SETTLE = 31
    WORKER = 32
    SIGN_OFF = 33
    TABLES = 34
    RUN_REQUESTS = 39
    RUN_TURNS = 40


def lock_key(row_id: int) -> int:
    """Return the second half of a row's lock key, which has 32 bits where an id has 64."""
    return row_id & 0x7FFFFFFF


# The channels on which the database tells sleepers that there is work: triggers in store/migrations/beside_tables.sql.
# A notification says only that a check is worth while. Waiting processes check from time to time all the same.
# A message is due sooner than before, a node has ended, or a claim has: there may be something to claim or to settle.
DUE_CHANNEL = "poisonadmin_due"
# A claim has shards that no node has taken.
SHARD_CHANNEL = "poisonadmin_shard"
# The poison list has changed; the notification names the newest change.
POISON_LIST_CHANNEL = "poison_list"
