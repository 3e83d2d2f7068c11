"""The blacklist: messages that crashed what processed them too often, and those under suspicion."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import address_ids, visible_ids
from poisonadmin.core.queries.paging import Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.delivery.queries.crashes import CRASHED, CrashRow, crashes_of
from poisonadmin.messages.queries.bystanders import Others, others_on
from poisonadmin.messages.queries.lists import COLUMNS, JOINS, Count, MessageRow
from poisonadmin.messages.queries.triage import ticked

PAGE_ROWS = 25
CAP = 10_000
DECIDED_DAYS = 30
_KEY = Key(("m.blacklisted_at", "m.id"), (datetime, int))
# Spelt as in the partial index `message_candidates`. Whoever reads it adds OFFSET 0, a fence: the planner does not know
# that most candidates are blacklisted, would count on many that wait, and walk all messages to find the first ones.
_CANDIDATES = "SELECT m.* FROM message m WHERE m.candidate AND NOT m.is_undecided AND NOT m.is_given_up"


@dataclass(frozen=True)
class Crash:
    """A crash, and how those who shared the node with the message have fared; None where it was delivered alone."""

    row: CrashRow
    others: Others | None


@dataclass(frozen=True)
class Suspect:
    """A message and its last crashes, oldest first. `is_alone`: it is being delivered by itself now."""

    message: MessageRow
    crashes: tuple[Crash, ...]
    is_alone: bool = False


def list_blacklisted(
    *, principal: Principal, patterns: Sequence[str] = (), cursor: str | None = None, limit: int = PAGE_ROWS
) -> Page[Suspect]:
    """Return one page, the latest first. Raise InvalidCursor, QueryTooExpensive."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        scope, parameters = _scope(principal, patterns)
        rows = fetch(
            MessageRow,
            f"""SELECT {COLUMNS} FROM (
                  SELECT m.* FROM message m WHERE m.blacklisted_at IS NOT NULL AND {scope} AND {page.condition}
                  {page.order}) m {JOINS} {page.order}""",  # noqa: S608
            [*parameters, *page.parameters],
        )
        found = page.page(rows, lambda row: (row.state_at, row.id))
        return Page(_with_crashes(found.results, principal), found.next, found.previous)


def suspects(ids: Sequence[int], *, principal: Principal) -> list[Suspect]:
    """Return these messages as the blacklist shows them, in whatever state they are now; at most 500."""
    with bounded():
        return _with_crashes(ticked(ids, principal=principal), principal)


def count_newer(*, principal: Principal, patterns: Sequence[str], since: datetime) -> Count:
    """Return how many messages were blacklisted after `since`, counted no further than 100."""
    return _count(principal, patterns, "m.blacklisted_at > %s", [since], cap=100)


def count_blacklisted(*, principal: Principal, patterns: Sequence[str]) -> Count:
    """Return how many messages are blacklisted, counted no further than 10,000."""
    return _count(principal, patterns, "m.blacklisted_at IS NOT NULL", [], cap=CAP)


def count_candidates(*, principal: Principal, patterns: Sequence[str] = ()) -> int:
    """Return how many candidates wait for their delivery, or are delivered, alone."""
    principal.require(Permission.READ)
    with bounded():
        scope, parameters = _scope(principal, patterns)
        found: int = fetch_values(f"SELECT count(*) FROM ({_CANDIDATES} AND {scope} OFFSET 0) m", parameters)[0]  # noqa: S608
    return found


def candidates(*, principal: Principal, patterns: Sequence[str] = (), limit: int) -> list[Suspect]:
    """Return the first candidates that wait for their delivery, or are delivered, alone; each with its last crash."""
    principal.require(Permission.READ)
    with bounded():
        scope, parameters = _scope(principal, patterns)
        rows = fetch(
            MessageRow,
            f"""SELECT {COLUMNS} FROM (
                  SELECT * FROM ({_CANDIDATES} AND {scope} OFFSET 0) m ORDER BY m.id LIMIT %s) m {JOINS}
                ORDER BY m.id""",  # noqa: S608
            [*parameters, limit],
        )
        crashes = crashes_of([row.id for row in rows], most=1)
        alone = fetch_values(
            "SELECT m.id FROM message m JOIN claim c ON c.id = m.claim_id AND c.is_isolation"
            " WHERE m.id = ANY(%s) AND m.state = 'DLNG'",
            [[row.id for row in rows]],
        )
    return [
        Suspect(row, tuple(Crash(crash, None) for crash in crashes[row.id]), is_alone=row.id in alone) for row in rows
    ]


def has_ever_crashed(principal: Principal) -> bool:
    """Return whether any message that the principal may see has crashed what processed it, or was lost with a node."""
    principal.require(Permission.READ)
    scope, parameters = _scope(principal, ())
    join = "" if scope == "TRUE" else f" JOIN message m ON m.id = t.message_id AND {scope}"
    with bounded():
        return bool(fetch_values(f"SELECT EXISTS (SELECT FROM attempt t{join} WHERE t.{CRASHED})", parameters)[0])  # noqa: S608


def count_decided(principal: Principal) -> Count:
    """Return how many blacklisted messages were approved or marked FAIL within 30 days.

    Only the latest 10,000 decisions are looked at.
    """
    principal.require(Permission.READ)
    scope, parameters = _scope(principal, ())
    with bounded():
        found = fetch_values(
            f"""WITH decided AS (
                  SELECT h.message_id, h.seq FROM history h JOIN message m ON m.id = h.message_id
                  WHERE h.event IN ('approved', 'marked_fail') AND {scope}
                    AND h.at > now() - interval '{DECIDED_DAYS} days' ORDER BY h.at DESC LIMIT {CAP})
                SELECT count(DISTINCT message_id) FROM decided WHERE (
                  SELECT reason FROM history before WHERE before.message_id = decided.message_id
                    AND before.seq < decided.seq ORDER BY before.seq DESC LIMIT 1) = 'blacklisted'""",  # noqa: S608
            parameters,
        )[0]
    return Count(found, found >= CAP)


def _count(principal: Principal, patterns: Sequence[str], condition: str, values: list[Any], *, cap: int) -> Count:
    principal.require(Permission.READ)
    with bounded():
        scope, parameters = _scope(principal, patterns)
        found = fetch_values(
            f"SELECT count(*) FROM (SELECT FROM message m WHERE {condition} AND {scope} LIMIT {cap + 1}) m",  # noqa: S608
            [*values, *parameters],
        )[0]
    return Count(min(found, cap), found > cap)


def _with_crashes(rows: Sequence[MessageRow], principal: Principal) -> list[Suspect]:
    crashes = crashes_of([row.id for row in rows])
    together = {
        (crash.claim_id, crash.shard)
        for some in crashes.values()
        for crash in some
        if crash.claim_id is not None and crash.shard is not None and not crash.is_alone
    }
    others = others_on(together, principal=principal)

    def crash_of(message: MessageRow, crash: CrashRow) -> Crash:
        everybody = others.get((crash.claim_id, crash.shard))  # type: ignore[arg-type]
        return Crash(crash, None if everybody is None else everybody.without(message))

    return [Suspect(row, tuple(crash_of(row, crash) for crash in crashes[row.id])) for row in rows]


def _scope(principal: Principal, patterns: Sequence[str]) -> tuple[str, list[Any]]:
    ids = visible_ids(principal)
    if patterns:
        wanted = address_ids(patterns)
        ids = wanted if ids is None else sorted(set(ids) & set(wanted))
    return ("TRUE", []) if ids is None else ("m.address_id = ANY(%s)", [ids])
