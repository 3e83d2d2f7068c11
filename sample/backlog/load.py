"""Loads a backlog by COPY: as many messages as wanted, with all that belongs to them, always alike for a seed."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import AddressRef, ensure_addresses
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.groups.commands import failure_groups
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.counts import COUNTED
from sample.backlog.failures import ADDRESSES, Kind, make_kinds
from sample.backlog.lives import LIVES, Life, Step

MESSAGES_A_TRANSACTION = 20_000
SPAN = timedelta(days=30)
# One failure is as frequent as the next hundred together; most are rare.
_STEEPNESS = 0.9
_ADMINS = ("kim", "lee", "sasha")
_VERSIONS = ("2.3.0", "2.4.0", "2.4.1", "2.5.0-rc1")
_COLUMNS = {
    "body": "id, headers, payload",
    "envelope": "id, intake_address_id, message_id, conversation_id, content_type, payload_bytes, received_at,"
    " received_by",
    "message": "id, address_id, lane_id, state, reason, state_at, due_at, attempt_number, failure_count, crash_count,"
    " candidate, group_id, failed_at, original_address_id",
    "history": "message_id, from_state, to_state, event, reason, attempt_number, actor, note, at",
    "attempt": "message_id, attempt_number, started_at, finished_at, outcome, error_class, error_message, stack,"
    " fingerprint, title",
    "hop": "message_id, from_address, to_address, reason, by, at",
    "business_key": "message_id, name, value",
    "counter_delta": f"{COUNTED}, delta",
}
_NULL = r"\N"


class NotEmpty(PoisonAdminError):
    """Raised when a backlog is to be loaded into an installation that holds messages."""

    code = "not_empty"
    status = 409


@dataclass(frozen=True)
class _Group:
    """A kind of failure as it is stored. `stack` is as COPY takes it."""

    id: int
    kind: Kind
    stack: str


@dataclass
class _Rows:
    """What one transaction writes: lines for COPY by table, how often each combination is counted, what waits."""

    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[tuple[object, ...]] = field(default_factory=Counter)
    failed: dict[tuple[int, int, datetime], list[datetime]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[tuple[int, datetime]] = field(default_factory=list)


def load_backlog(
    *, messages: int, groups: int, seed: int = 1, force: bool = False, say: Callable[[int], None] = lambda _: None
) -> None:
    """Write so many messages, of so many failure groups, received over the last 30 days; tell `say` how many are there.

    Each 20,000 are one transaction, after which everything is consistent. What waits is due within the next days, on
    addresses that deliver nowhere unless a policy says otherwise.
    Errors: `NotEmpty`, unless `force`: then they come on top of what is there.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM message)")
        if cursor.fetchone()[0] and not force:
            raise NotEmpty("This installation holds messages; nothing was loaded. --force loads the backlog on top.")
    kinds = make_kinds(groups, seed)
    begin = datetime.now(UTC) - SPAN
    for start in range(0, messages, MESSAGES_A_TRANSACTION):
        numbers = range(start, min(start + MESSAGES_A_TRANSACTION, messages))
        with transaction.atomic(), connection.cursor() as cursor:
            _load_some(cursor, numbers, kinds, [begin + SPAN * (n / messages) for n in numbers], seed)
        say(numbers.stop)


def _load_some(
    cursor: CursorWrapper, numbers: range, kinds: Sequence[Kind], times: Sequence[datetime], seed: int
) -> None:
    dice = random.Random(f"{seed} {numbers.start}")
    cursor.execute(
        "SELECT nextval(pg_get_serial_sequence('message', 'id')) FROM generate_series(1, %s)", [len(numbers)]
    )
    ids = [row[0] for row in cursor.fetchall()]
    weights = list(itertools.accumulate(1 / rank**_STEEPNESS for rank in range(1, len(kinds) + 1)))
    # Each kind has a message from the beginning, which is its sample.
    places = [n if n < len(kinds) else -1 for n in numbers]
    chosen = dice.choices(range(len(kinds)), cum_weights=weights, k=len(numbers))
    chosen = [place if place >= 0 else one for place, one in zip(places, chosen, strict=True)]
    lives = dice.choices(LIVES, cum_weights=list(itertools.accumulate(life.share for life in LIVES)), k=len(numbers))
    lives = [LIVES[0] if place >= 0 else life for place, life in zip(places, lives, strict=True)]

    addresses = ensure_addresses({*ADDRESSES, *(kind.dead_letter_address for kind in kinds)})
    groups = _groups(cursor, kinds, dict(zip(reversed(chosen), reversed(ids), strict=True)))
    rows = _Rows()
    for message_id, place, life, at in zip(ids, chosen, lives, times, strict=True):
        _Message(message_id, groups[place], life, at, addresses, dice).write(rows)
    _write(cursor, rows)
    _count_failures(cursor, rows, groups.values())
    schedule.schedule(cursor, rows.waiting)


def _groups(cursor: CursorWrapper, kinds: Sequence[Kind], samples: Mapping[int, int]) -> dict[int, _Group]:
    """Return the groups of the kinds that have a sample, made where they are missing, without counting a failure."""
    now = datetime.now(UTC)
    # Their times are told with their failures: the first is earlier, the last is later.
    seen = [_seen(kinds[place], sample, 0, now, now - 2 * SPAN, count=0) for place, sample in samples.items()]
    found = failure_groups.ensure(cursor, seen)
    return {
        place: _Group(found[kinds[place].fingerprint], kinds[place], _escaped(kinds[place].stack)) for place in samples
    }


def _count_failures(cursor: CursorWrapper, rows: _Rows, groups: Iterable[_Group]) -> None:
    by_id = {group.id: group.kind for group in groups}
    failure_groups.ensure(
        cursor,
        [
            _seen(by_id[group_id], 0, address_id, min(ats), max(ats), count=len(ats))
            for (group_id, address_id, _), ats in rows.failed.items()
        ],
    )


def _seen(
    kind: Kind, message_id: int, address_id: int, first_at: datetime, last_at: datetime, *, count: int
) -> failure_groups.Seen:
    return failure_groups.Seen(
        kind.fingerprint, kind.title, kind.error_class, message_id, address_id, first_at, last_at, count=count
    )


def _write(cursor: CursorWrapper, rows: _Rows) -> None:
    rows.lines["counter_delta"] = [_line(*key, n) for key, n in rows.counts.items()]
    for table, columns in _COLUMNS.items():
        with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
            copy.write("".join(rows.lines[table]))


@dataclass
class _Message:
    """A message while its life is written down."""

    id: int
    group: _Group
    life: Life
    at: datetime
    addresses: dict[str, AddressRef]
    dice: random.Random
    state: State | None = None
    attempt_number: int = 0
    failure_count: int = 0
    failed_at: datetime | None = None

    def write(self, rows: _Rows) -> None:
        """Add all its rows."""
        kind, received_at = self.group.kind, self.at
        failed_here, arrived = kind.address, kind.dead_letter_address if self.life.is_imported else kind.address
        for step in self.life.steps:
            self._step(step, rows)
        is_back = any(step.event is Event.APPROVED for step in self.life.steps)
        if self.life.is_imported:
            rows.lines["hop"].append(_line(self.id, failed_here, arrived, "rejected", "rabbitmq", received_at))
        if is_back:
            rows.lines["hop"].append(_line(self.id, arrived, failed_here, "approved", _ADMINS[0], self.at))
        self._write_message(rows, self.addresses[failed_here if is_back else arrived], is_back=is_back)
        self._write_content(rows, self.addresses[arrived], received_at)

    def _write_message(self, rows: _Rows, here: AddressRef, *, is_back: bool) -> None:
        end, life = self.life.end, self.life
        due_at = None
        if end.to in (State.TBDL, State.DLVD):
            due_at = datetime.now(UTC) + timedelta(minutes=self.dice.randrange(60, 5000)) if life.waits else self.at
            if end.to is State.TBDL:
                rows.waiting.append((here.lane_id, due_at))
        group = self.group.id if life.fails else None
        original = self.addresses[self.group.kind.address].id if life.is_imported and not is_back else None
        failures = self.failure_count if end.to is not State.DLVD else 0
        crashes = life.crashes
        # fmt: off
        rows.lines["message"].append(_line(
            self.id, here.id, here.lane_id, end.to, end.reason, self.at, due_at, self.attempt_number, failures, crashes,
            crashes > 0, group, self.failed_at, original,
        ))
        # fmt: on
        rows.counts[here.id, end.to, end.reason, group, original] += 1

    def _write_content(self, rows: _Rows, intake: AddressRef, received_at: datetime) -> None:
        customer, total = self.dice.randrange(50_000), self.dice.randrange(100, 100_000)
        payload = (
            f'{{"order":"A-{self.id}","customer":"C-{customer}","total":{total / 100},"currency":"EUR",'
            f'"lines":[{{"sku":"S-{total}","quantity":{total % 7 + 1}}}],"note":"{"by the door " * (total % 4)}"}}'
        )
        version = _VERSIONS[customer % len(_VERSIONS)]
        headers = f'{{"X-Consumer-Version":"{version}","Content-Language":"en"}}'
        rows.lines["body"].append(f"{self.id}\t\\\\x{headers.encode().hex()}\t\\\\x{payload.encode().hex()}\n")
        conversation = f"C-{customer}" if customer % 3 == 0 else None
        # fmt: off
        rows.lines["envelope"].append(_line(
            self.id, intake.id, f"order-{self.id}", conversation, "application/json", len(payload), received_at,
            "backlog",
        ))
        # fmt: on
        if customer % 2:
            rows.lines["business_key"].append(_line(self.id, "customer", f"C-{customer}"))

    def _step(self, step: Step, rows: _Rows) -> None:
        self.at = min(self.at + timedelta(seconds=self.dice.randrange(1, step.minutes * 60)), datetime.now(UTC))
        if step.event is Event.CLAIMED:
            self.attempt_number += 1
        if step.attempt is not None:
            self._attempt(step.attempt, rows)
        actor = self.dice.choice(_ADMINS) if step.is_decision else "system"
        note = "known, see OPS-311" if step.is_decision else None
        # fmt: off
        rows.lines["history"].append(_line(
            self.id, self.state, step.to, step.event, step.reason, self.attempt_number, actor, note, self.at
        ))
        # fmt: on
        self.state = step.to

    def _attempt(self, outcome: Outcome, rows: _Rows) -> None:
        began = None if outcome is Outcome.IMPORTED else self.at - timedelta(milliseconds=self.dice.randrange(5, 900))
        told: tuple[object, ...] = (None,) * 5
        if outcome in (Outcome.FAILED, Outcome.IMPORTED):
            kind = self.group.kind
            text = kind.text.replace("{n}", str(self.dice.randrange(200)))
            told = (kind.error_class, text, self.group.stack, kind.fingerprint, kind.title)
            rows.failed[
                self.group.id,
                self.addresses[self.group.kind.address].id,
                self.at.replace(minute=0, second=0, microsecond=0),
            ].append(self.at)
            self.failed_at = self.at
        self.failure_count += outcome is Outcome.FAILED
        rows.lines["attempt"].append(_line(self.id, self.attempt_number, began, self.at, outcome, *told))


def _line(*values: object) -> str:
    return "\t".join(_NULL if value is None else str(value) for value in values) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
