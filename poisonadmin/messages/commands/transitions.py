"""The one writer of states: every statement that changes a state is built here, and checked against the table.

Such a statement changes messages, writes a history row for each and the counter deltas of all, in one go. It is text,
made once when its module is imported: an event, a state or a reason that the table of states does not have together
fails then. What only the parameters of a call say is checked by `check` before the call.

Every statement takes the parameter `actor`, and `note` where no other note is asked for. What it changed is in the
common table expression `changed`: id, address_id, state, reason, group_id, original_address_id, attempt_number, and
what `shows` adds. What a statement sets anew of address_id, reason, group_id and original_address_id, and `event` where
messages differ, is there as was_address_id, was_reason, was_group_id, was_original_address_id and event. What is the
same for all is written as a constant: a column of text costs as much to carry along as a counter delta.

What becomes of a message that an operation has put up for delivery is written to the operation's results alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from poisonadmin.core.queries.sql import EMPTY, Sql, name, named_sql, names, raw
from poisonadmin.messages.domain.states import Event, Reason, State, check

# What counters tell apart, beside the state.
_COUNTED = ("address_id", "reason", "group_id", "original_address_id")
_AFTER = ("id", "state", "attempt_number", *_COUNTED)
# What is not to be delivered has neither a due time nor an expiry.
_PARKED = {"due_at": "NULL", "expires_at": "NULL"}

# The payloads of final messages may be removed; what leads from there to a delivery leads over NDLV.
_FINAL = (State.FAIL, State.DLVD)
_MAY_LACK_PAYLOAD = (State.NDLV, *_FINAL)

COUNT_CHANGED = "SELECT count(*) FROM changed"

# By these a message is given up on, or tried again, because of the result of their delivery.
_FAILURES = (Event.FAILED, Event.CRASHED, Event.NODE_LOST, Event.ROLLED_BACK, Event.DISCARDED, Event.RETURNED)
# From this state the end of a conversation is that of a delivery, with an error; what waits beside it is parked.
_ENDING = {State.DLNG: (Event.CONVERSATION_ENDED,)}


@dataclass(frozen=True)
class ChosenRows:
    """The rows that a statement is about.

    `query`: of a move, a query for the ids of messages in the state that it starts from, for what of address_id,
    reason, group_id and original_address_id is set anew, and for whatever the rest names as `chosen`; of messages that
    enter, a FROM clause. `before`: common table expressions that it needs.
    The query of a move asks for the state, unless `is_locked` says that the caller has read it under the messages'
    locks, or unless `asks`, a condition on `message`, is given: then the update itself asks for the state and for that,
    of messages that nobody has locked before, and sets nothing from `chosen`. `is_as_read`: the query has
    `message.xmin` as `version`, and what somebody else changes before the update reaches it is left out.
    """

    query: str
    before: str = ""
    asks: str | None = None
    is_locked: bool = False
    is_as_read: bool = False


@dataclass(frozen=True)
class StatementParts:
    """The rest of a statement.

    `shows`: more columns of `changed`. `beside`: common table expressions that need `changed`. `note`: an expression
    over `changed`. `is_decision`: history names the operation, the parameter `operation`. `resets`: columns of
    `changed` that history has under the same names. `then`: the query at the end.
    """

    shows: Sequence[str] = ()
    beside: str = ""
    note: str = "%(note)s"
    is_decision: bool = False
    resets: Sequence[str] = ()
    then: str = COUNT_CHANGED


_PLAIN = StatementParts()


def move(
    start: State,
    event: Event | str,
    to: State | None,
    *,
    chosen: ChosenRows | str,
    reason: Reason | None = None,
    sets: Mapping[str, str] | None = None,
    parts: StatementParts = _PLAIN,
) -> str:
    """Return the statement by which `event` moves messages from the state `start` to the state `to`.

    `chosen`: a query alone where it asks for the state. `event`: an expression over `chosen` where messages differ.
    `to` None: `sets` says it. `reason` None: `sets` says it, or it stays.
    Errors: `ValueError`, `TransitionNotAllowed`, when the statement is made.
    """
    rows = ChosenRows(chosen) if isinstance(chosen, str) else chosen
    if rows.asks is None and not rows.is_locked and f"state = '{start}'" not in rows.query:
        raise ValueError(f"nothing in {rows.query!r} asks for messages in {start}")
    if to is State.TBDL and start in _MAY_LACK_PAYLOAD and "removed_payload" not in rows.query:
        raise ValueError(f"{rows.query!r} would have messages delivered whose payload was removed")
    if isinstance(event, Event) and to is not None:
        check(start, event, to, reason)
    values = _values({"state_at": "now()"}, to, reason)
    values |= (_PARKED if to in (State.NDLV, State.FAIL) else {}) | dict(sets or {})
    before_it = [column for column in _COUNTED if column in values]
    is_result = _is_result(start, to)
    returned = [f"message.{column}" for column in (*_AFTER, *(["operation_id"] if is_result else []))]
    returned += [f"chosen.{column} AS was_{column}" for column in before_it]
    returned += [] if isinstance(event, Event) else [f"{event} AS event"]
    beside = _parts(parts.beside)
    if start in _FINAL and to not in _FINAL:
        beside += stale_heads()
    elif "address_id" in values:
        beside += stale_heads("address_id <> was_address_id")
    history = _history(_text(event), f"'{start}'", _constant(to), parts)
    results = _results(_text(event), start, _constant(to), before_it) if is_result else EMPTY
    statement = named_sql(
        """
WITH {before}chosen AS ({query}), changed AS (
    UPDATE message SET {sets} {found}
    RETURNING {returned}
), {beside}{history},
{results}{counts}
{then}
""",
        before=_parts(rows.before),
        query=raw(rows.query),
        sets=_list(f"{column} = {value}" for column, value in values.items()),
        found=_found(rows, start),
        returned=_list([*returned, *parts.shows]),
        beside=beside,
        history=history,
        results=results,
        counts=_counts(start, to, before_it),
        then=raw(parts.then),
    )
    return str(statement)


def enter(
    event: Event | str,
    to: State | None,
    *,
    columns: Mapping[str, str],
    chosen: ChosenRows | str,
    reason: Reason | None = None,
    noted: str | None = None,
    parts: StatementParts = _PLAIN,
) -> str:
    """Return the statement by which messages enter in the state `to`.

    `columns`: the columns of `message` and their expressions over `chosen`, a FROM clause; `state` and `reason` only
    where `to` and `reason` are None. `noted`: an expression of `before` with id and note of every message, where all
    enter alike; history is then written from it. The rest as for `move`.
    """
    rows = ChosenRows(chosen) if isinstance(chosen, str) else chosen
    if isinstance(event, Event) and to is not None:
        check(None, event, to, reason)
    values = _values(columns, to, reason)
    returned = [*_AFTER, *([] if isinstance(event, Event) else [f"{event} AS event"])]
    history = _history(_text(event), "NULL", _constant(to), parts)
    if noted is not None:
        same_for_all = _list(["NULL", f"'{to}'", _text(event), f"'{reason}'"])
        changes = named_sql("SELECT id, {same}, 0, %(actor)s, note FROM {noted}", same=same_for_all, noted=raw(noted))
        history = _history_of(changes)
    statement = named_sql(
        """
WITH {before}changed AS (
    INSERT INTO message ({columns}) SELECT {values} FROM {query}
    RETURNING {returned}
), {beside}{history}, {counts}
{then}
""",
        before=_parts(rows.before),
        columns=names(values),
        values=_list(values.values()),
        query=raw(rows.query),
        returned=_list([*returned, *parts.shows]),
        beside=_parts(parts.beside),
        history=history,
        counts=_counts(None, to, ()),
        then=raw(parts.then),
    )
    return str(statement)


def stay(event: Event, starts: Sequence[State], *, chosen: str, parts: StatementParts) -> str:
    """Return the statement by which `event` leaves messages in their states, one of `starts`, and is written down.

    `chosen`: a query for id, state, reason and attempt_number of messages that the caller has locked; they are in
    `changed`. `parts`: without `shows`, of a decision whatever it says.
    """
    for start in starts:
        check(start, event, start)
    history = _history(f"'{event}'", "state", "state", replace(parts, is_decision=True))
    return f"""
WITH changed AS MATERIALIZED ({chosen}), {_parts(parts.beside)}
{history}
{parts.then}
"""


def stale_heads(these: str = "TRUE") -> Sql:
    """Return the common table expression that has heads of conversations looked for anew (ordered_conversations.py).

    `these`: a condition on `changed`, which are undelivered again, or come from another address.
    """
    return named_sql(
        """stale_heads AS (
    INSERT INTO stale_heads (address_id)
    SELECT DISTINCT address.id FROM changed JOIN address ON address.id = address_id AND is_ordered WHERE {these}
), """,
        these=raw(these),
    )


def _values(columns: Mapping[str, str], to: State | None, reason: Reason | None) -> dict[str, str]:
    """Return the columns and their expressions, with state and reason where they are the same for all."""
    state = {} if to is None else {"state": f"'{to}'"}
    return dict(columns) | state | ({} if reason is None else {"reason": f"'{reason}'"})


def _found(rows: ChosenRows, start: State) -> Sql:
    """Return the clauses by which an update finds the chosen messages."""
    if rows.asks is None:
        as_read = " AND message.xmin = chosen.version" if rows.is_as_read else ""
        return raw(f"FROM chosen WHERE message.id = chosen.id{as_read}")
    # One walk along the index instead of a search a message. The CASE keeps the planner, whose statistics are older
    # than any claim, from beginning with the state, and from making a join of a condition that it can hash.
    asked = raw(f"CASE WHEN message.state = '{start}' AND {rows.asks} THEN TRUE END")
    return named_sql("WHERE message.id = ANY(ARRAY(SELECT id FROM chosen)) AND {asked}", asked=asked)


def _history(event: str, start: str, to: str, parts: StatementParts) -> Sql:
    of_decision = {"operation_id": "%(operation)s::bigint"} if parts.is_decision else {}
    more = of_decision | {column: column for column in parts.resets}
    changes = named_sql(
        "SELECT id, {what}, reason, attempt_number, %(actor)s, {note} FROM changed",
        what=_list([start, to, event]),
        note=_list([parts.note, *more.values()]),
    )
    return _history_of(changes, "".join(f", {column}" for column in more))


def _history_of(changes: Sql, more: str = "") -> Sql:
    return named_sql(
        """recorded_history AS (
    INSERT INTO history (message_id, from_state, to_state, event, reason, attempt_number, actor, note{more})
    {changes}
)""",
        more=raw(more),
        changes=changes,
    )


def _is_result(start: State, to: State | None) -> bool:
    """Return whether the statement says what became of messages that an operation had delivered."""
    if start is State.DLVD:
        return True
    return start in (State.TBDL, State.DLNG) and (to is None or to in (State.DLVD, State.NDLV, State.FAIL))


# The literals are outcomes and events (MemberOutcome, Event); `to` and `event` may be columns.
_OUTCOME = partial(
    named_sql,
    """CASE WHEN {to} = 'DLVD' AND EXISTS (
                     SELECT FROM confirmation AS c
                     WHERE c.message_id = id AND c.attempt_number = changed.attempt_number AND confirmed_at IS NOT NULL)
                THEN 'confirmed'
                WHEN {to} = 'DLVD' THEN 'delivered'
                WHEN {to} = 'TBDL' THEN 'waiting'
                WHEN {event} = 'operation_cancelled' THEN 'cancelled'
                WHEN {event} NOT IN ({failures}) THEN 'skipped'
                WHEN reason = 'blacklisted' THEN 'blacklisted'
                WHEN {is_same_group} THEN 'failed_same'
                ELSE 'failed_new' END""",
)
_RESULTS = partial(
    named_sql,
    """recorded_results AS (
    INSERT INTO operation_result AS result (operation_id, message_id, outcome, code, group_id, failed_group_id)
    SELECT operation_id, id, outcome, CASE WHEN outcome = 'skipped' THEN coalesce(reason, event) END,
           group_before, group_id
    FROM (SELECT operation_id, id, {outcome} AS outcome, reason, {event} AS event, {group_before} AS group_before,
                 group_id
          FROM changed WHERE operation_id IS NOT NULL) AS member
    ON CONFLICT (operation_id, message_id) DO UPDATE SET
        outcome = CASE WHEN excluded.outcome NOT IN ('failed_same', 'failed_new')
                            -- What waited for its next attempt has failed.
                            AND (excluded.outcome, result.outcome) <> ('cancelled', 'waiting')
                       THEN excluded.outcome
                       WHEN {is_same_group}
                       THEN 'failed_same' ELSE 'failed_new' END,
        code = excluded.code, failed_group_id = excluded.failed_group_id, at = now()
), """,
)
# Two columns name one failure group, or groups that are merged into one.
_IS_SAME_GROUP = partial(
    named_sql,
    """({one} IS NOT DISTINCT FROM {other} OR (
                    SELECT count(*) = 2 AND count(DISTINCT coalesce(merged_into_id, failure_group.id)) = 1
                    FROM failure_group WHERE failure_group.id IN ({one}, {other})))""",
)


def _results(event: str, start: State, to: str, before_it: Sequence[str]) -> Sql:
    """Return the results of the operations that the messages belong to; a failure is compared with the one before."""
    group_before = name("was_group_id" if "group_id" in before_it else "group_id")
    outcome = _OUTCOME(
        to=raw(to),
        event=raw(event),
        failures=_list(f"'{one}'" for one in (*_FAILURES, *_ENDING.get(start, ()))),
        is_same_group=_IS_SAME_GROUP(one=group_before, other=name("group_id")),
    )
    is_same_group = _IS_SAME_GROUP(one=name("result.group_id"), other=name("excluded.failed_group_id"))
    return _RESULTS(outcome=outcome, event=raw(event), group_before=group_before, is_same_group=is_same_group)


def _counts(start: State | None, to: State | None, before_it: Sequence[str]) -> Sql:
    """Return the deltas. `changed` is read once: what it was before is the same but for the state and `before_it`."""
    was = ", ".join(f"was_{one}" if one in before_it else one for one in _COUNTED)
    sides = [f"({_constant(to)}, {names(_COUNTED)}, n)", *([] if start is None else [f"('{start}', {was}, -n)"])]
    return named_sql(
        """recorded_counts AS (
    INSERT INTO counter_delta (state, {counted}, delta)
    SELECT {of_side}, sum(delta)
    FROM (SELECT {columns}, count(*) AS n FROM changed GROUP BY {columns}) AS alike
         CROSS JOIN LATERAL (VALUES {sides}) AS side (state, {counted}, delta)
    GROUP BY 1, 2, 3, 4, 5 HAVING sum(delta) <> 0
)""",
        counted=names(_COUNTED),
        of_side=names(f"side.{one}" for one in ("state", *_COUNTED)),
        columns=names([*_COUNTED, *([] if to else ["state"]), *(f"was_{one}" for one in before_it)]),
        sides=_list(sides),
    )


def _constant(to: State | None) -> str:
    return "state" if to is None else f"'{to}'"


def _text(event: Event | str) -> str:
    return f"'{event}'" if isinstance(event, Event) else "event"


def _list(texts: Iterable[str]) -> Sql:
    return raw(", ".join(texts))


def _parts(expressions: str) -> Sql:
    return raw(f"{expressions.strip().rstrip(',')}, ") if expressions.strip() else EMPTY
