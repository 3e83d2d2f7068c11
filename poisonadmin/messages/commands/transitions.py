"""The one writer of states: every statement that changes a state is built here, and checked against the table.

Such a statement changes messages, writes a history row for each and the counter deltas of all, in one go. It is text,
made once when its module is imported: an event, a state or a reason that the table of states does not have together
fails then. What only the parameters of a call say is checked by `check` before the call.

Every statement takes the parameter `actor`, and `note` where no other note is asked for. What it changed is in the
common table expression `changed`: id, address_id, state, reason, group_id, attempt_number, event, and was_address_id,
was_state, was_reason, was_group_id, which say what each was before (NULL: it was not here), and what `shows` adds.
"""

from collections.abc import Mapping, Sequence

from poisonadmin.messages.domain.states import Event, Reason, State, check

_AFTER = ("id", "address_id", "state", "reason", "group_id", "attempt_number")
_BEFORE = {"address_id": "bigint", "state": "text", "reason": "text", "group_id": "bigint"}
# What is not to be delivered has neither a due time nor an expiry.
_PARKED = {"due_at": "NULL", "expires_at": "NULL"}

COUNT_CHANGED = "SELECT count(*) FROM changed"


def move(
    start: State,
    event: Event | str,
    to: State | None,
    *,
    chosen: str,
    is_locked: bool = False,
    is_materialized: bool = False,
    reason: Reason | None = None,
    sets: Mapping[str, str] | None = None,
    shows: Sequence[str] = (),
    before: str = "",
    beside: str = "",
    note: str = "%(note)s",
    then: str = COUNT_CHANGED,
) -> str:
    """Return the statement by which `event` moves messages from the state `start` to the state `to`.

    `chosen`: a query for id, address_id, state, reason and group_id of messages in `start`, and whatever the rest names
    as `chosen`; it asks for the state, unless `is_locked` says that the caller has read it under the messages' locks.
    `event`: an expression over `chosen` where messages differ. `to` None: `sets` says it. `reason` None: `sets` says
    it, or it stays. `before`, `beside`: common table expressions that `chosen` needs, or that need `changed`. `note`:
    an expression over `changed`. `then`: the query at the end.
    Errors: `ValueError`, `TransitionNotAllowed`, when the statement is made.
    """
    if not is_locked and f"state = '{start}'" not in chosen:
        raise ValueError(f"nothing in {chosen!r} asks for messages in {start}")
    values = {"state_at": "now()"}
    if to is not None:
        values |= {"state": f"'{to}'"} | (_PARKED if to in (State.NDLV, State.FAIL) else {})
    if isinstance(event, Event) and to is not None:
        check(start, event, to, reason)
    if reason is not None:
        values["reason"] = f"'{reason}'"
    values |= sets or {}
    written = ", ".join(f"{column} = {value}" for column, value in values.items())
    was = [f"chosen.{column} AS was_{column}" for column in _BEFORE]
    after = [f"message.{column}" for column in _AFTER]
    return f"""
WITH {_parts(before)}chosen AS {"MATERIALIZED " if is_materialized else ""}({chosen}), changed AS (
    UPDATE message SET {written} FROM chosen WHERE message.id = chosen.id
    RETURNING {", ".join([*after, *was, f"{_text(event)} AS event", *shows])}
), {_parts(beside)}{_recorded(note)}
{then}
"""  # noqa: S608  (fragments are constants)


def enter(
    event: Event | str,
    to: State | None,
    *,
    columns: Mapping[str, str],
    chosen: str,
    reason: Reason | None = None,
    shows: Sequence[str] = (),
    before: str = "",
    beside: str = "",
    note: str = "%(note)s",
    noted: str | None = None,
    then: str = COUNT_CHANGED,
) -> str:
    """Return the statement by which messages enter in the state `to`.

    `columns`: the columns of `message` and their expressions over `chosen`, a FROM clause; `state` and `reason` only
    where `to` and `reason` are None. `noted`: an expression of `before` with id and note of every message, where all
    enter alike; history is then written from it. The rest as for `move`.
    """
    values = dict(columns)
    if to is not None:
        values["state"] = f"'{to}'"
    if isinstance(event, Event) and to is not None:
        check(None, event, to, reason)
    if reason is not None:
        values["reason"] = f"'{reason}'"
    was = [f"NULL::{kind} AS was_{column}" for column, kind in _BEFORE.items()]
    history = None
    if noted is not None:
        history = f"SELECT id, NULL, '{to}', {_text(event)}, '{reason}', 0, %(actor)s, note FROM {noted}"  # noqa: S608
    return f"""
WITH {_parts(before)}changed AS (
    INSERT INTO message ({", ".join(values)}) SELECT {", ".join(values.values())} FROM {chosen}
    RETURNING {", ".join([*_AFTER, *was, f"{_text(event)} AS event", *shows])}
), {_parts(beside)}{_recorded(note, history)}
{then}
"""  # noqa: S608  (fragments are constants)


def _recorded(note: str, history: str | None = None) -> str:
    changes = f"SELECT id, was_state, state, event, reason, attempt_number, %(actor)s, {note} FROM changed"  # noqa: S608
    return f"""recorded_history AS (
    INSERT INTO history (message_id, from_state, to_state, event, reason, attempt_number, actor, note)
    {history or changes}
), recorded_counts AS (
    INSERT INTO counter_delta (address_id, state, reason, group_id, delta)
    SELECT address_id, state, reason, group_id, sum(delta) FROM (
        SELECT address_id, state, reason, group_id, count(*) AS delta FROM changed GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT was_address_id, was_state, was_reason, was_group_id, -count(*) FROM changed
        WHERE was_state IS NOT NULL GROUP BY 1, 2, 3, 4
    ) AS both_sides
    GROUP BY 1, 2, 3, 4 HAVING sum(delta) <> 0
)"""  # noqa: S608  (fragments are constants)


def _text(event: Event | str) -> str:
    return f"'{event}'" if isinstance(event, Event) else event


def _parts(expressions: str) -> str:
    return f"{expressions.strip().rstrip(',')}, " if expressions.strip() else ""
