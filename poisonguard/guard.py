"""The guard between a consumer and its handler, and its lives: it follows forks and the end of the process."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import socket
import ssl
import threading
import weakref
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypedDict

from poisonguard.confirming import Confirmer, Headers
from poisonguard.errors import GuardError, ListNotLoaded, Undecided
from poisonguard.listing import Held, Listing
from poisonguard.place import CrashJournal, Place, forget_held, make_place
from poisonguard.reporter import Reporter
from poisonguard.server import Server
from poisonguard.wording import Wording, bookmark_of, payload_bytes


class _Skipped:
    def __repr__(self) -> str:
        return "SKIPPED"

    def __bool__(self) -> bool:
        return False


# What `handle` returns in place of the handler's answer when the bookmark is listed.
SKIPPED: Any = _Skipped()


class Skip(NamedTuple):
    """A message that is not handled because its bookmark is listed; `why`: what is known of it."""

    bookmark: str
    payload: Any
    why: str


OnSkip = Callable[[Skip], object]


# The guards that have to learn of a fork, and of the end of the process.
_living: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork() -> None:
    forget_held()
    for guard in list(_living):
        guard.forked()


def _at_exit() -> None:
    for guard in list(_living):
        guard.flush()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger("poisonguard")
PRESETS: dict[str, int] = {"amps": 1}
MAX_NAME_CHARS = 100
AT_EXIT_SECONDS = 2.0


class GuardOptions(TypedDict, total=False):
    """Keyword arguments of a guard that may be left out.

    crash_limit: at which crash a bookmark is listed; None: as the source's policy says, else 2. preset="amps": 1.
    send_payload: send the message along (up to 256 kB), so that an administrator sees it; False.
    on_skip: called with a Skip for a listed bookmark, so that the caller can acknowledge it.
    decision_seconds: how long a bookmark waits for the answer to its own report before `Undecided` is raised; 1.0.
    """

    version: str | None
    name: str | None
    preset: str | None
    crash_limit: int | None
    send_payload: bool
    content_type: str | None
    on_skip: OnSkip | None
    decision_seconds: float
    tls: ssl.SSLContext | None


class Guard:
    """Handles messages one bookmark at a time, unless the poison list of `source` names it.

    url, token: a PoisonAdmin, and a token of it with the scope `ingest` whose patterns cover `source`.
    source: the list's name, which all consumers of the same messages share; where PoisonAdmin stores them, its address.
    journal_dir: a directory that outlives the process; consumers on one machine may share it.
    options: as `GuardOptions` has them.
    """

    def __init__(
        self,
        url: str,
        token: str,
        source: str,
        *,
        journal_dir: str | os.PathLike[str],
        **options: Unpack[GuardOptions],
    ) -> None:
        """Check what is given, and touch neither disk nor network; raise ValueError, TypeError."""
        if unknown := sorted(options.keys() - GuardOptions.__annotations__.keys()):
            raise TypeError(f"Guard() got an unexpected keyword argument {unknown[0]!r}")
        preset, crash_limit = options.get("preset"), options.get("crash_limit")
        if preset is not None and preset not in PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there is 'amps'")
        if crash_limit is not None and crash_limit < 1:
            raise ValueError("crash_limit is at least 1")
        self.source = source
        self._server = Server(url, token, options.get("tls"))
        # Absolute: a consumer that changes its working directory keeps its journals.
        self._root = Path(journal_dir).absolute() / hashlib.sha256(source.encode()).hexdigest()[:16]
        self._version = options.get("version")
        self._given_name = options.get("name")
        self._crash_limit = crash_limit or (PRESETS[preset] if preset else None)
        self._send_payload = options.get("send_payload", False)
        self._content_type = options.get("content_type")
        self._on_skip = options.get("on_skip")
        self._decision_seconds = options.get("decision_seconds", 1.0)
        self._is_child = False
        self._is_closed = False
        self._start_options: tuple[float | None, str] | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Set up what belongs to one process: its name, its threads, what it knows."""
        self._is_ready = False
        self._lock = threading.RLock()
        self._place: Place | None = None
        self.name = self._own_name()
        self._held = Held()
        self._listing = Listing(self._server, self.source, self._held)
        self._confirmer = Confirmer(self._server)
        self._wording = Wording(self.source, self.name, self._crash_limit, self._content_type)
        self._reporter = Reporter(
            self._server, self._root, self._held, crash=self._wording.of_crash, heartbeat=self._heartbeat
        )

    def start(self, timeout: float | None = None, *, or_else: str = "raise") -> Guard:
        """Block until the list is loaded, and report what dead consumers have left in `journal_dir`.

        timeout: for how many seconds at most; None: for as long as it takes, with a warning in the log meanwhile.
        or_else: what follows when it is not loaded by then: "raise" (ListNotLoaded), or "go on", without a list.
        Errors: `ListNotLoaded`, `Refused` (the token will not do), `GuardError` (closed), OSError (journal_dir).
        """
        if or_else not in ("raise", "go on"):
            raise ValueError('or_else is "raise" or "go on"')
        with self._lock:
            if self._is_closed:
                raise GuardError("this guard is closed")
            self._start_options = (timeout, or_else)
            if self._place is None:
                self._place = make_place(self._root)
                _living.add(self)
                self._reporter.start()
                self._listing.start()
        if not self._listing.wait(timeout):
            if self._is_closed:
                raise GuardError("this guard was closed before the list was here")
            if or_else == "raise":
                raise ListNotLoaded(f"the poison list of {self.source} did not come within {timeout} s")
            logger.warning("the poison list of %s is not here; handling goes on without it", self.source)
        self._is_ready = not self._is_closed
        return self

    def handle(
        self, bookmark: object, payload: Any, handler: Callable[..., Any], *args: Any,
        on_skip: OnSkip | None = None, confirm: Headers | None = None,
    ) -> Any:  # fmt: skip
        """Return what `handler(payload, *args)` returns, or SKIPPED when the bookmark is listed (AMPS-7).

        An exception is reported and raised again (AMPS-8). `SystemExit` counts as a crash (AMPS-9), unless the guard is
        closed already; `KeyboardInterrupt` and cancellation say nothing about the message and are not reported.
        confirm: the message's headers; where PoisonAdmin has delivered it, it is told once the handler has returned.
        Errors: those of the handler; `Undecided` while an earlier failure of the bookmark is not answered; OSError when
        it cannot be put down what is about to be handled, which then is not.
        """
        if not self._is_ready:
            self._make_ready()
        key = bookmark_of(bookmark)
        is_held = key in self._held.bookmarks and key not in self._listing.bookmarks
        if is_held and not self._held.wait(key, self._decision_seconds):
            raise Undecided(key)
        if key in self._listing.bookmarks:
            return self._skip(key, payload, on_skip or self._on_skip)
        place = self._place
        assert place is not None
        journal = place.journal()
        try:
            journal.begin(key, payload_bytes(payload) if self._send_payload else None)
            answer = handler(payload, *args)
        except Exception as error:
            self._report(place, journal, key, payload, error)
            raise
        except SystemExit:
            self._report(place, journal, key, payload, None)
            self._reporter.flush(AT_EXIT_SECONDS)
            raise
        finally:
            journal.clear()
            place.give_back(journal)
        if type(answer) is CoroutineType:
            answer.close()
            raise TypeError("the guard calls functions; a coroutine function has handled nothing yet when it returns")
        if confirm is not None:
            self._confirmer.add(confirm)
        return answer

    def wrap(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function (bookmark, payload, *args) that handles with `handler`; usable as a decorator."""

        def guarded(bookmark: object, payload: Any, *args: Any) -> Any:
            return self.handle(bookmark, payload, handler, *args)

        return guarded

    def is_listed(self, bookmark: object) -> bool:
        """Return whether the bookmark is on the list, as far as this process knows."""
        return bookmark_of(bookmark) in self._listing.bookmarks

    def close(self, timeout: float = AT_EXIT_SECONDS) -> None:
        """End on purpose: what is being handled is not reported (AMPS-10).

        Reports that the server does not take within `timeout` seconds stay on the disk for the next guard.
        """
        with self._lock:
            place, was_closed = self._place, self._is_closed
            self._is_closed, self._is_ready = True, False
            if place is None or was_closed:
                return
            place.clear()
        self._reporter.flush(timeout)
        self._confirmer.stop(timeout)
        self._listing.stop(timeout)
        self._reporter.stop(timeout)
        place.close()
        _living.discard(self)

    def __enter__(self) -> Guard:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _report(self, place: Place, journal: CrashJournal, key: str, payload: Any, error: Exception | None) -> None:
        # A journal that says nothing was cleared by close(), or is the parent's and we are its forked child.
        if not journal.is_busy:
            return
        raw = payload_bytes(payload) if self._send_payload else None
        body = self._wording.of_crash(key, raw) if error is None else self._wording.of_failure(key, raw, error)
        self._reporter.report(place, journal, body)

    def _heartbeat(self) -> tuple[str, dict[str, Any]]:
        current = self._place.current() if self._place else None
        host = socket.gethostname()
        body = {"source": self.source, "version": self._version, "host": host, "pid": os.getpid(), "bookmark": current}
        return self.name, body

    def _own_name(self) -> str:
        if self._given_name is None:
            return f"{self.source[:40]}@{socket.gethostname()[:40]}-{os.getpid()}"
        return (f"{self._given_name}-{os.getpid()}" if self._is_child else self._given_name)[-MAX_NAME_CHARS:]

    def _skip(self, key: str, payload: Any, on_skip: OnSkip | None) -> Any:
        why = self._listing.bookmarks.get(key, "")
        logger.info("skipped %s, which is on the poison list of %s: %s", key, self.source, why)
        if on_skip is not None:
            on_skip(Skip(key, payload, why))
        return SKIPPED

    def _make_ready(self) -> None:
        if self._is_closed:
            raise GuardError("this guard is closed")
        if self._start_options is None:
            raise GuardError("start() the guard first: nothing is handled before the list is known")
        timeout, or_else = self._start_options
        self.start(timeout, or_else=or_else)

    def forked(self) -> None:
        """Begin anew in a forked child, which calls this by itself: its journals, threads and list are its own."""
        if self._place is not None:
            self._place.abandon()
        self._is_child = True
        self._begin_anew()

    def flush(self) -> None:
        """Wait for up to four seconds until all that is to be said is answered; called when the process ends.

        What is being handled stays in the journal (AMPS-9).
        """
        self._reporter.flush(AT_EXIT_SECONDS)
        self._confirmer.flush(AT_EXIT_SECONDS)
