"""Producers that hand messages in whatever happens, and somebody who asks the web process how it is all the while."""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.whole_system.consumer import Answer, Behaviour, Request
from tests.whole_system.installation import Installation, NoAnswer

BATCH = 10
WATCH_SECONDS = 0.25
PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class Mood:
    """How the consumer treats messages, chosen by their ids: so many of a hundred are slow, so many fail first."""

    seed: int
    slow_percent: int
    failing_percent: int

    def behaviour(self) -> Behaviour:
        """Return the consumer's behaviour; the same message is treated the same in every run of the seed."""

        def answer(request: Request) -> Answer:
            dice = random.Random(f"{self.seed} {request.producer_id.rpartition('-')[2]}")
            seconds = dice.uniform(0.1, 1.0) if dice.uniform(0, 100) < self.slow_percent else 0.0
            times = dice.randint(1, 2) if dice.uniform(0, 100) < self.failing_percent else 0
            return Answer(503 if request.nth <= times else 200, seconds)

        return answer


class Receiver(Protocol):
    """Where messages are handed in for: a destination of either kind."""

    @property
    def installation(self) -> Installation: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...


@dataclass(frozen=True)
class WebAnswer:
    """One request to the web process; `status` 0: no answer."""

    path: str
    at: float
    seconds: float
    status: int
    said: str


def requested(
    installation: Installation, method: str, path: str, body: bytes | None = None, *, seconds: float = 30
) -> WebAnswer:
    """Send a request and return what came of it."""
    began = time.monotonic()
    try:
        reply = installation.ask(method, path, body, seconds=seconds)
        status, said = reply.status, reply.body.decode(errors="replace")
    except NoAnswer as error:
        status, said = 0, str(error)
    return WebAnswer(path, time.time(), time.monotonic() - began, status, said)


class Load:
    """Hands messages in at `rate` a second, in batches, each again until it is acknowledged, until it is stopped.

    `fields` says what the message with an id holds; `asked` is whose web process gets the next batch. `accepted` has
    the time of each acknowledgement.
    """

    def __init__(
        self,
        destination: Receiver,
        rate: float,
        fields: Callable[[str], Mapping[str, object]] = lambda one: {"payload": f"body of {one}"},
        *,
        batch: int = BATCH,
    ) -> None:
        self.asked = destination.installation
        self.sent: list[str] = []
        self.accepted: dict[str, float] = {}
        self.answers: list[WebAnswer] = []
        self.error: str | None = None
        self._destination = destination
        self._rate = rate
        self._fields = fields
        self._batch = batch
        self._last: int | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_after(0)
        self._thread.join(PATIENCE_SECONDS)

    def stop_after(self, count: int) -> None:
        """Hand in so many more and end; return when they are acknowledged."""
        if self._last is None:
            self._last = len(self.sent) + count
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        began = time.monotonic()
        while self._last is None or len(self.sent) < self._last:
            time.sleep(max(0.0, began + len(self.sent) / self._rate - time.monotonic()))
            ids = [f"{self._destination.name}-{len(self.sent) + n}" for n in range(self._batch)]
            self.sent += ids
            lines = [{"address": self._destination.address, "message_id": one, **self._fields(one)} for one in ids]
            if not self._hand_in("\n".join(map(json.dumps, lines)).encode()):
                return
            self.accepted |= dict.fromkeys(ids, self.answers[-1].at)

    def _hand_in(self, body: bytes) -> bool:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            answer = requested(self.asked, "POST", "messages/batch/", body, seconds=15)
            self.answers.append(answer)
            if answer.status == 202 and not json.loads(answer.said)["rejected"]:
                return True
            time.sleep(0.2)
        self.error = f"a batch was not acknowledged within {PATIENCE_SECONDS} s: {self.answers[-1:]}"
        return False


class Watch:
    """Asks the web process all the while, and keeps what it said."""

    PATHS = ("/readyz", "messages/?limit=1", "stats/")

    def __init__(self, installation: Installation) -> None:
        self.looks: list[WebAnswer] = []
        self._installation = installation
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)

    def speechless(self, *, may_be_away: bool) -> list[str]:
        """S: return the requests that got no answer, or one that does not say plainly why not."""
        return [
            f"the web process answered {look.path} with {look.status or 'nothing'}: {look.said[:200]}"
            for look in self.looks
            if not (look.status == 200 or _says_why_not(look) or (look.status == 0 and may_be_away))
        ][:5]

    def _run(self) -> None:
        while not self._is_over.wait(WATCH_SECONDS):
            for path in self.PATHS:
                self.looks.append(requested(self._installation, "GET", path))


def _says_why_not(look: WebAnswer) -> bool:
    # A list whose statement the database was stopped in is taken for one that reads too much.
    was_cut_off = look.status == 422 and '"query_too_expensive"' in look.said
    return was_cut_off or (look.status == 503 and ('"checks"' in look.said or '"code"' in look.said))
