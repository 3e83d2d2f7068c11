"""B1: freezing, approving and marking FAIL what a filter finds, against a bare UPDATE of the same rows.

B2: the same against the table that one would write first: the body inside, and an index on the state.
"""

from typing import Any

from django.db import connection, transaction

from benchmarks import loads
from benchmarks.results import Line, alternate, at_most, compared, pairs_of, quantile, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.messages.commands.transitions import ChosenRows, enter
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.search.commands.selections import freeze

NAME = "B1"
MESSAGES = 1_000_000
FILTER = {"state": ["NDLV"]}
LIMIT = "a history row a message, and the indexes of what waits, is undecided and is given up"

_FILL = enter(
    Event.IMPORTED,
    State.NDLV,
    columns={"id": "id", "address_id": "%(address)s", "lane_id": "%(lane)s"},
    chosen=ChosenRows(
        "fresh",
        """fresh AS MATERIALIZED (
    SELECT nextval('message_id_seq') AS id FROM generate_series(1, %(count)s)
), envelopes AS (
    INSERT INTO envelope (id, intake_address_id, message_id, content_type, payload_bytes, received_by)
    SELECT id, %(address)s, 'bench-' || id, 'text/plain', 1024, 'benchmark' FROM fresh
)""",
    ),
    reason=Reason.IMPORTED,
)
_BARE = {
    OperationAction.FAIL: """
        UPDATE message SET state = 'FAIL', reason = 'failed_by_admin', state_at = now() WHERE is_undecided""",
    OperationAction.APPROVE: """
        UPDATE message SET state = 'TBDL', reason = NULL, state_at = now(), due_at = now() WHERE is_undecided""",
}

# A body of 1 KB that no compression shortens stays in its row.
_OBVIOUS = """
CREATE TABLE obvious (
    id bigserial PRIMARY KEY, message_id text NOT NULL, address text NOT NULL, state text NOT NULL, reason text,
    state_at timestamptz NOT NULL DEFAULT now(), due_at timestamptz, attempts int NOT NULL DEFAULT 0,
    headers jsonb NOT NULL DEFAULT '{}', body text NOT NULL
);
INSERT INTO obvious (message_id, address, state, reason, body)
SELECT 'bench-' || n, 'b1.x', 'NDLV', 'imported',
       (SELECT string_agg(md5(n || '/' || part), '') FROM generate_series(1, 32) AS part)
FROM generate_series(1, %(count)s) AS n;
CREATE INDEX ON obvious (state)
"""


def run(world: World) -> list[Line]:
    """Measure."""
    count = world.count(MESSAGES, least=10_000)
    loads.deliver_to("b1", "http://127.0.0.1:9/")
    frozen: list[float] = []
    lines = []
    for action, aim in ((OperationAction.FAIL, 1 / 3), (OperationAction.APPROVE, 1 / 2.5)):
        say(f"  {count:,} messages: {action}")
        rates = alternate(
            [
                (str(action), lambda action=action: _operate(count, action, frozen)),  # type: ignore[misc]
                ("a bare UPDATE", lambda action=action: _update(count, action)),  # type: ignore[misc]
            ],
            rounds=world.rounds,
            unit="messages",
        )
        pairs = pairs_of(rates, str(action), "a bare UPDATE")
        lines.append(
            compared(NAME, f"{action} / a bare UPDATE of the rows", pairs, unit="messages", aim=aim, limit=LIMIT)
        )
    rates = alternate(
        [
            ("approve", lambda: _operate(count, OperationAction.APPROVE, frozen)),
            ("a bare UPDATE, obvious schema", lambda: _update_obvious(count)),
        ],
        rounds=world.rounds,
        unit="messages",
    )
    obvious = pairs_of(rates, "approve", "a bare UPDATE, obvious schema")
    work = "approve / a bare UPDATE on the obvious schema"
    lines.append(compared("B2", work, obvious, unit="messages", aim=7, limit="as B1"))
    loads.empty()
    freezing = at_most(NAME, f"freeze {count:,} messages", quantile(frozen, 0.5), aim=20.0, unit="s")
    return [freezing, *lines]


def _operate(count: int, action: OperationAction, frozen: list[float]) -> Rate:
    _fill(count)
    freezing, watch = Stopwatch(), Stopwatch()
    with freezing:
        selection = freeze(FILTER, principal=SYSTEM)
    frozen.append(freezing.seconds)
    with watch:
        operation = begin(selection, action, reason="measured", principal=SYSTEM)
        while carry_on():
            pass
    found = get_operation(operation, principal=SYSTEM)
    assert found.ledger.total == count
    assert found.walked == count
    return watch.rate(count)


def _update(count: int, action: OperationAction) -> Rate:
    _fill(count)
    watch = Stopwatch()
    with watch, connection.cursor() as cursor:
        cursor.execute(_BARE[action])
        assert cursor.rowcount == count
    return watch.rate(count)


def _update_obvious(count: int) -> Rate:
    with connection.cursor() as cursor:
        cursor.execute(_OBVIOUS, {"count": count})
        cursor.execute("VACUUM (ANALYZE) obvious")
        cursor.execute("CHECKPOINT")
        watch = Stopwatch()
        with watch:
            cursor.execute("UPDATE obvious SET state = 'TBDL', reason = NULL, state_at = now() WHERE state = 'NDLV'")
        assert cursor.rowcount == count
        cursor.execute("DROP TABLE obvious")
    return watch.rate(count)


def _fill(count: int) -> None:
    loads.empty()
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses(["b1.x"])["b1.x"]
        values: dict[str, Any] = {"count": count, "address": place.id, "lane": place.lane_id}
        cursor.execute(_FILL, values | {"actor": "benchmark", "note": None})
    loads.settle_down()
