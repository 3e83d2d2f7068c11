"""Chooses the index along which a list of messages reads, by the counters: the one that holds the least beside it.

The planner does not know how states, addresses and failure groups go together. Told to find the first fifty of an
address that failed, it walks all that failed. The counters know it exactly; they choose how to read and never what.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import Window, ordered_by
from poisonadmin.core.queries.rows import fetch_rows, one_of
from poisonadmin.core.queries.sql import TRUE, Sql, all_of, join, name, names, raw
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import NOW
from poisonadmin.search.queries.id_bounds import id_bounds
from poisonadmin.search.queries.live import IN_STATE, Where

# Where no more match, and the shortest walk may have to read more than that, all that match are read, by whichever way
# the planner takes for that, and then ordered.
FEW_MATCHES = 2000
SHORT_WALK = 20_000
# Up to so many walks are merged.
FEW_WALKS = 48
# Where more wait, those that are wanted first are found sooner by walking all messages.
MOST_WAITING = 10_000
# The values of is_undecided and is_given_up, in the indexes that begin with another column.
_STOPPED = {State.NDLV: ("TRUE", "FALSE"), State.FAIL: ("FALSE", "TRUE")}
_MOVING = ("FALSE", "FALSE")
EVERY_COLUMN = Sql("m.*")


@dataclass(frozen=True)
class Walk:
    """One range of an index whose columns before `id` are `columns`, with these `values` (SQL), in the order of ids.

    Without columns it goes along the ids, in either case from `first` to `last`. `conditions` say what else the rows
    must be. `is_read_first`: all that fulfil the conditions are read, and then ordered.
    """

    conditions: tuple[Sql, ...]
    columns: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    first: int = 0
    last: int = MAX_ID
    is_read_first: bool = False

    def sql(self, rest: Sql, page: Window, selected: Sql = EVERY_COLUMN) -> Sql:
        """Return the query for what is `selected` of the first rows of `message m` on the page that are what `rest`
        says too.
        """
        condition = all_of([*self.conditions, rest, page.where])
        if self.is_read_first:
            # OFFSET 0 is a fence: the planner would begin with the order.
            return Sql(
                "SELECT {selected} FROM (SELECT {selected} FROM message m WHERE {condition} OFFSET 0) m {order}",
                selected=selected,
                condition=condition,
                order=page.order,
            )
        first, last = _ids(page)
        first, last = max(first, self.first), min(last, self.last)
        order, between = page.order, Sql("TRUE")
        if self.columns:
            # Asked for equal values, the planner may find them by walking all ids. Asked for an order by all columns,
            # it cannot.
            columns = names(f"m.{column}" for column in (*self.columns, "id"))
            between = Sql(
                "{begin} IS NOT NULL AND ({columns}) >= ({lowest}) AND ({columns}) <= ({highest})",
                begin=name(f"m.{self.columns[0]}"),
                columns=columns,
                lowest=raw(", ".join([*self.values, str(first)])),
                highest=raw(", ".join([*self.values, str(last)])),
            )
            order = ordered_by([f"m.{column}" for column in (*self.columns, "id")], page.direction, page.limit + 1)
        elif (self.first, self.last) != (0, MAX_ID):
            between = raw(f"m.id BETWEEN {first} AND {last}")
        return Sql(
            "SELECT {selected} FROM message m WHERE {between} AND {condition} {order}",
            selected=selected,
            between=between,
            condition=condition,
            order=order,
        )


def _ids(page: Window) -> tuple[int, int]:
    """Return the lowest and the highest id that may be on the page."""
    if page.after is None:
        return 0, MAX_ID
    (after,) = page.after
    return (0, after - 1) if page.direction == "DESC" else (after + 1, MAX_ID)


def plan_list(where: Where) -> list[Walk]:
    """Return what to read: the first rows of all walks together, ordered, are the list's first rows."""
    walks = _plan(where)
    if not where.times or any(walk.is_read_first for walk in walks):
        return walks
    bounds = id_bounds(where.times)
    parts = tuple(where.parts().values())
    return [
        *(replace(walk, first=bounds.first, last=bounds.last) for walk in walks),
        *([Walk((*parts, one_of("m.id", bounds.elsewhere)), is_read_first=True)] if bounds.elsewhere else []),
    ]


def _plan(where: Where) -> list[Walk]:
    if where.errors is not None and len(walks := _walks_of_errors(where)) <= FEW_WALKS:
        return _with_rest(walks, where, "error")
    parts = where.parts()
    if not parts:
        return [Walk(())]
    matching, read = _count(where)
    ways = {column: _walks_of_ids(column, ids, where) for column, ids in where.ids.items()}
    if where.states is not None:
        ways["state"] = _walks_of_states(where, read["state"])
    ways["all"] = [Walk(() if where.states is None else (one_of("m.state", where.states),))]
    usable = [about for about, walks in ways.items() if len(walks) <= FEW_WALKS]
    # Each walk looks for a page of its own. What else is asked may be rare in one of them: then one walk along all is
    # better than several along most.
    about = min(usable, key=lambda one: read[one] * (1 if len(ways[one]) == 1 or where.rest == TRUE else 4))
    if matching <= FEW_MATCHES and read[about] > SHORT_WALK:
        states = [TRUE] if where.states is None else [IN_STATE[state] for state in where.states]
        return _with_rest([Walk((state,), is_read_first=True) for state in states], where, "state")
    return _with_rest(ways[about], where, about)


def _with_rest(walks: Sequence[Walk], where: Where, about: str) -> list[Walk]:
    # The walks say the state themselves.
    rest = [condition for part, condition in where.parts().items() if part not in (about, "state")]
    return [replace(walk, conditions=(*walk.conditions, *rest)) for walk in walks]


def _zone_states(where: Where) -> Sql:
    """Return the condition on the counters to be where the walks of `_walks_of_ids` go."""
    if where.states is None:
        return TRUE
    moving = {state for state in State if state not in _STOPPED}
    return one_of("c.state", sorted({*where.states, *(moving if moving & set(where.states) else ())}))


def _walks_of_ids(column: str, ids: Sequence[int], where: Where) -> list[Walk]:
    states = tuple(State) if where.states is None else where.states
    zones = [(zone, TRUE) for state, zone in _STOPPED.items() if state in states]
    if moving := [state for state in states if state not in _STOPPED]:
        zones.append((_MOVING, one_of("m.state", moving)))
    columns = (column, "is_undecided", "is_given_up")
    return [Walk((state,), columns, (str(int(one)), *zone)) for one in ids for zone, state in zones]


def _walks_of_errors(where: Where) -> list[Walk]:
    assert where.errors is not None
    walks = _walks_of_ids("group_id", where.errors.groups, where)
    if where.errors.ids:
        elsewhere = (one for one in where.errors.conditions[len(where.errors.groups) :])
        state = where.parts().get("state", TRUE)
        walks += [Walk((condition, state), is_read_first=True) for condition in elsewhere]
    return walks


def _walks_of_states(where: Where, waiting: int) -> list[Walk]:
    walks = []
    for state in where.states or ():
        if state in _STOPPED or (state == State.DLVD and where.reasons is not None):
            reasons = [one for one in where.reasons or Reason if one not in where.other_reasons]
            walks += [Walk((IN_STATE[state],), ("reason",), (f"'{reason!s}'",)) for reason in reasons]
        elif state == State.DLVD or (state == State.TBDL and waiting > MOST_WAITING):
            walks.append(Walk((one_of("m.state", [state]),)))
        else:
            walks.append(Walk((IN_STATE[state],), is_read_first=True))
    return walks


def _count(where: Where) -> tuple[int, Mapping[str, int]]:
    """Return how many match what the counters tell, and how many each way reads to find them all."""
    asked = {column: one_of(f"c.{column}", ids) for column, ids in where.ids.items()}
    if where.states is not None:
        asked["state"] = one_of("c.state", where.states)
    if where.reasons is not None:
        asked["reason"] = one_of("c.reason", where.reasons)
    ways = {column: all_of([asked[column], _zone_states(where)]) for column in where.ids}
    if "state" in asked:
        ways["state"] = all_of([asked["state"], asked.get("reason", TRUE)])
    ways["all"] = TRUE
    sums = join(
        ", ",
        (
            Sql("coalesce(sum(n) FILTER (WHERE {one}), 0)::bigint", one=one)
            for one in (all_of(asked.values()), *ways.values())
        ),
    )
    matching, *read = fetch_rows(Sql("SELECT {sums} FROM {now}", sums=sums, now=NOW))[0]
    return matching, dict(zip(ways, read, strict=True))
