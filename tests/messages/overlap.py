"""Two transactions of two connections, one inside the other, without sleeps."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import connection, transaction

# Nobody waits longer for a lock here, so that two that wait for each other fail and do not hang.
_PATIENCE_SECONDS = 20


@dataclass
class Aside:
    """Work on a thread and a connection of its own. `error` is what it raised."""

    work: Callable[[], Any]
    result: Any = None
    error: BaseException | None = None
    session: int = 0
    _is_connected: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_connected.wait(_PATIENCE_SECONDS)

    def join(self) -> Any:
        """Wait for its end and return what it returned; raise what it raised."""
        assert self.has_ended_within(_PATIENCE_SECONDS), "it waits for ever"
        if self.error is not None:
            raise self.error
        return self.result

    def has_ended_within(self, seconds: float) -> bool:
        """Return whether it has ended, after at most so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self.session = cursor.fetchone()[0]
            self._is_connected.set()
            self.result = self.work()
        except BaseException as error:
            self.error = error
        finally:
            self._is_connected.set()
            connection.close()


@dataclass(frozen=True)
class Overlap:
    """What both returned, and whether the second had to wait for the first."""

    first: Any
    second: Any
    waited: bool


def overlap(first: Callable[[], Any], second: Callable[[], Any], *, first_is_kept: bool = True) -> Overlap:
    """Run `second` while the transaction of `first` is done and not committed; then commit it, or roll it back."""
    with transaction.atomic():
        result = first()
        aside = Aside(second)
        waited = until_blocked_or_ended(aside)
        transaction.set_rollback(not first_is_kept)
    return Overlap(result, aside.join(), waited)


def until_blocked_or_ended(aside: Aside) -> bool:
    """Return once it waits for a lock (True) or has ended (False)."""
    with psycopg.connect(_dsn(), autocommit=True) as ask:
        while not aside.has_ended_within(0.005):
            row = ask.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [aside.session]).fetchone()
            if row is not None and row[0]:
                return True
    return False


def together(*works: Callable[[], Any]) -> list[Any]:
    """Run all at once, each on its own connection; return what they returned, or raised, in their order."""
    barrier = threading.Barrier(len(works))

    def begun(work: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            barrier.wait(_PATIENCE_SECONDS)
            return work()

        return run

    asides = [Aside(begun(work)) for work in works]
    for aside in asides:
        assert aside.has_ended_within(_PATIENCE_SECONDS), "it waits for ever"
    return [aside.error or aside.result for aside in asides]


def rows(query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query on this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())


def _dsn() -> str:
    options = connection.settings_dict
    return psycopg.conninfo.make_conninfo(
        host=options["HOST"],
        port=options["PORT"],
        user=options["USER"],
        password=options["PASSWORD"],
        dbname=options["NAME"],
    )
