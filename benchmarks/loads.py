"""What the benchmarks work on: an empty store, destinations, messages that fall due. Needs Django set up."""

from collections.abc import Mapping
from typing import Any

import pgtrigger
from django.apps import apps
from django.db import connection, transaction

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.policies.commands import save_policy

BODY_BYTES = 1024

# What is configured, and who may: it stays between runs.
_KEPT = frozenset(
    {
        *("access", "api_token", "address", "audit", "audit_seal", "destination", "idempotency_key", "lane", "policy"),
        *("source", "worker"),
    }
)

_FILL = enter(
    Event.ENQUEUED,
    State.TBDL,
    columns={
        "id": "id",
        "address_id": "%(address)s",
        "lane_id": "%(lane)s",
        "due_at": "to_timestamp(%(begin)s) + n * %(step)s * interval '1 s'",
    },
    chosen=ChosenRows(
        "fresh",
        f"""fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('message', 'id')) AS id, n FROM generate_series(0, %(count)s - 1) AS n
), bodies AS (
    INSERT INTO body (id, headers, payload)
    SELECT id, '{{}}', convert_to(repeat(md5(id::text), {BODY_BYTES // 32}), 'UTF8') FROM fresh
), envelopes AS (
    INSERT INTO envelope (id, intake_address_id, message_id, content_type, payload_bytes, received_by)
    SELECT id, %(address)s, 'bench-' || id, 'text/plain', {BODY_BYTES}, 'benchmark' FROM fresh
)""",
    ),
    parts=StatementParts(shows=("lane_id", "due_at"), then="SELECT lane_id, min(due_at) FROM changed GROUP BY lane_id"),
)


def empty() -> None:
    """Remove all messages and everything that belongs to them; what is configured stays."""
    tables = {model._meta.db_table for model in apps.get_app_config("store").get_models()} - _KEPT  # noqa: SLF001
    with connection.cursor() as cursor:
        # A running PoisonAdmin locks the tables in another order; the loser of a deadlock tries again.
        with pgtrigger.ignore("store.History:never_emptied", "store.PayloadVersion:never_emptied"):
            retried(lambda: cursor.execute(f"TRUNCATE {', '.join(sorted(tables))}"))
        cursor.execute("UPDATE lane SET next_due = NULL")
        cursor.execute("CHECKPOINT")


def settle_down() -> None:
    """Bring statistics and the disk up to date, so that a run does not pay for what was done before it."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) message, envelope, body, history, lane")
        cursor.execute("CHECKPOINT")


def deliver_to(
    name: str, url: str, *, match: str | None = None, settings: Mapping[str, Any] | None = None, **config: object
) -> None:
    """Have the addresses of `match` (default: `name` and all below it) deliver to a destination called `name`."""
    save_destination(
        name, kind="http", config={"url": url, **config}, secrets=None, max_rate_per_second=None, principal=SYSTEM
    )
    save_policy(match or f"{name}.#", preset=None, settings=settings or {}, destination=name, principal=SYSTEM)


def fill(address: str, count: int, *, begin: float, over_seconds: float = 0.0) -> None:
    """Put `count` messages of 1 KB on the address, due from `begin` (Unix seconds) on, spread over `over_seconds`."""
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses([address])[address]
        values: dict[str, Any] = {"count": count, "address": place.id, "lane": place.lane_id, "begin": begin}
        values |= {"step": over_seconds / count, "actor": "benchmark", "note": None}
        cursor.execute(_FILL, values)
        schedule.schedule_earliest(cursor, dict(cursor.fetchall()))


def database_now() -> float:
    """Return the database's time in Unix seconds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def count_not(state: str) -> int:
    """Return how many messages are in another state."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM message WHERE state <> %s", [state])
        return int(cursor.fetchone()[0])


def due_times() -> dict[int, float]:
    """Return when each message that waits is due, in Unix seconds, by its id."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, extract(epoch FROM due_at)::float8 FROM message WHERE state = 'TBDL'")
        return dict(cursor.fetchall())


def count_in(address: str, state: str) -> int:
    """Return how many messages of the address are in the state."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM message JOIN address ON address.id = address_id WHERE name = %s AND state = %s",
            [address, state],
        )
        return int(cursor.fetchone()[0])


def give_up_waiting(address: str) -> None:
    """Take what waits on the address out of the way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE message SET state = 'DLVD' FROM address "
            "WHERE address.id = address_id AND name = %s AND state = 'TBDL'",
            [address],
        )


def last_change() -> float:
    """Return when a message last changed its state, in Unix seconds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM max(state_at))::float8 FROM message")
        return float(cursor.fetchone()[0])
