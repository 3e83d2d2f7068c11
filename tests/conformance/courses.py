"""Vectors side by side through a running PoisonAdmin: one HTTP consumer, which fails each message as its vector says.

A wait is the message's `due_at` less its `state_at`, which the settle writes together. Unless it is to be waited out,
`due_at` is moved to now as soon as it is read.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.vectors import Course, Hop, Vector
from tests.whole_system.consumer import Answer, Request, consuming
from tests.whole_system.installation import PoisonAdmin

DESTINATION = "conformance"
SECONDS = 150

# A message that was claimed before anybody looked was due at once: `due_at` is then no later than the statement of the
# settle that set it, which is the time in the history.
_WAITS = """
SELECT message.id, failure_count, state, due_at > now(),
       CASE WHEN state = 'TBDL' THEN round(extract(epoch FROM due_at - state_at) * 1000)::bigint
            WHEN due_at <= failed.at THEN 0 ELSE -1 END
FROM message CROSS JOIN LATERAL (
    SELECT at FROM history WHERE message_id = message.id AND event = 'failed' ORDER BY seq DESC LIMIT 1
) AS failed
WHERE message.id = ANY(%s) AND state IN ('TBDL', 'DLNG') AND failure_count > 0
"""
# In one statement, for a lane's floor must not be above what waits on it.
_BRING_FORWARD = """
WITH moved AS (UPDATE message SET due_at = now() WHERE id = %s AND state = 'TBDL' RETURNING lane_id)
UPDATE lane SET next_due = least(next_due, now()) FROM moved WHERE lane.id = moved.lane_id RETURNING lane.id
"""
_ENDED = """
SELECT message.id FROM message JOIN address ON address.id = message.address_id
WHERE message.id = ANY(%s) AND (state NOT IN ('TBDL', 'DLNG') OR status = 'STOPPED' AND state = 'TBDL')
"""


def bring_forward(system: PoisonAdmin, message_id: int) -> None:
    """Have a message that waits be due now."""
    system.rows(_BRING_FORWARD, [message_id])


@dataclass(frozen=True)
class Went:
    """How a message went. `failures` are those its history tells of, `accepted` that it arrived then."""

    message_id: int
    course: Course
    failures: int
    accepted: bool
    jobs: tuple[tuple[str, str, str], ...]


@dataclass
class Run:
    """The messages of all vectors under way. `waits`: by message and failure, in milliseconds, as they were set."""

    system: PoisonAdmin
    vectors: Mapping[str, Vector]
    waits_out: bool
    messages: dict[int, Vector] = field(default_factory=dict)
    waits: dict[tuple[int, int], int] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        """Refuse a vector's message as often as it says, then take it; take all else."""
        vector = self.vectors.get(request.address)
        if vector is None or request.body != vector.id.encode():
            return Answer()
        self.read_waits([request.message_id])  # what the failure before this attempt set is still there
        return Answer(503 if request.nth <= vector.failures else 200)

    def read_waits(self, ids: list[int]) -> list[int]:
        """Write down the waits that are set now; return the messages that still wait."""
        rows = self.system.rows(_WAITS, [ids])
        for message_id, failure, _, _, wait in rows:
            self.waits.setdefault((message_id, failure), wait)
        return [message_id for message_id, _, state, is_later, _ in rows if state == "TBDL" and is_later]

    def go(self) -> None:
        """Return when each message has come to its end; what has not in time is left to its test."""
        deadline = time.monotonic() + SECONDS
        left = list(self.messages)
        while left and time.monotonic() < deadline:
            waiting = self.read_waits(left)
            for message_id in [] if self.waits_out else waiting:
                bring_forward(self.system, message_id)
            ended = {row[0] for row in self.system.rows(_ENDED, [left])}
            left = [message_id for message_id in left if message_id not in ended]
            time.sleep(0.05)

    def went(self, message_id: int) -> Went:
        """Return how one went, by its history, its hops and its jobs."""
        rows = self.system.rows
        steps = rows("SELECT event, to_state, reason FROM history WHERE message_id = %s ORDER BY seq", [message_id])
        failed = [step for step in steps if step[0] == "failed"]
        hops = rows("SELECT to_address, queue, reason FROM hop WHERE message_id = %s ORDER BY id", [message_id])
        stopped = rows("SELECT name FROM address WHERE status = 'STOPPED' AND status_message_id = %s", [message_id])
        stops = bool(stopped)
        returned = [number for number, step in enumerate(failed, start=1) if step[1] == "TBDL"]
        waits = tuple(self.waits.get((message_id, n), -1) for n in (returned[:-1] if stops else returned))
        last = failed[-1] if failed else (None, "none", None)
        course = Course(waits, last[1], last[2], Hop(*hops[0]) if hops else None, stops)
        return Went(message_id, course, len(failed), steps[-1][:2] == ("delivered", "DLVD"), self._jobs(message_id))

    def _jobs(self, message_id: int) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            self.system.rows(
                """SELECT kind, split_part(worker, '@', 1), run.state FROM attempt JOIN claim ON claim.id = claim_id
                   JOIN run ON run.id = job_id WHERE message_id = %s ORDER BY attempt_number""",
                [message_id],
            )
        )


@contextlib.contextmanager
def run_vectors(
    system: PoisonAdmin, vectors: Sequence[Vector], *, waits_out: bool = False
) -> Iterator[dict[str, Went]]:
    """Run the vectors side by side, and yield how each went, by its address."""
    run = Run(system, {vector.address: vector for vector in vectors}, waits_out)
    with consuming(run.answer) as consumer:
        config: dict[str, Any] = {"url": consumer.url, "timeout_ms": 30_000, "concurrency": 64}
        system.post("destinations/", {"name": DESTINATION, "kind": "http", "config": config})
        for vector in vectors:
            for match, (preset, settings) in vector.policies.items():
                policy: dict[str, Any] = {"match": match, "settings": settings, "destination": DESTINATION}
                system.post("policies/", policy | ({"preset": preset} if preset else {}))
        for vector in vectors:
            body = {"address": vector.address, "payload": vector.id, "conversation_id": vector.conversation}
            run.messages[int(system.post("messages/", body)["id"])] = vector
        run.go()
        _until_jobs_ended(system)
        yield {vector.address: run.went(message_id) for message_id, vector in run.messages.items()}


def _until_jobs_ended(system: PoisonAdmin) -> None:
    deadline = time.monotonic() + 20
    running = "SELECT count(*) FROM run WHERE kind = 'redeliver' AND state = 'running'"
    while system.rows(running)[0][0] and time.monotonic() < deadline:
        time.sleep(0.1)
