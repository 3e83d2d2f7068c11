"""A handler destination whose every delivery waits until the test says how it ends."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.whole_system.handler_destination import HandlerDestination, Json
from tests.whole_system.installation import PoisonAdmin, until

SECONDS = 90
EXACT, PLAIN = "exact", "all_in_flight"  # the two ways to blame


@dataclass(frozen=True)
class Suspicion:
    """What the message's row says: how suspect it is."""

    state: str
    reason: str | None
    candidate: bool
    crash_count: int
    failure_count: int
    attempt_number: int


@dataclass(frozen=True)
class ControlledHandler:
    """A destination whose handler waits for a word in `directory`; an attempt is named by its number, from 1."""

    destination: HandlerDestination
    directory: Path

    @classmethod
    def create(
        cls, system: PoisonAdmin, name: str, *, concurrency: int = 2, preset: str = "sap", **settings: object
    ) -> "ControlledHandler":
        """Create the destination and the policy, with the limits and the switches of the preset."""
        directory = system.home / f"controlled-{name}"
        directory.mkdir()
        config: Json = {"concurrency": concurrency, "timeout_ms": 120_000}
        destination = HandlerDestination.create(
            system, name, callable="controlled:handle", config=config, preset=preset, **settings
        )
        return cls(destination, directory)

    def send(self, **fields: object) -> int:
        """Hand in a message and return its id."""
        return self.destination.send("", headers={"control": str(self.directory)}, **fields)

    def send_together(self, count: int) -> list[int]:
        """Hand in messages that one claim takes, all of them and in this order, and return their ids."""
        self.hold()
        ids = [self.send() for _ in range(count)]
        self.release()
        return ids

    def hold(self) -> None:
        """Have nothing more claimed; what is under way goes on."""
        self.destination.installation.post(f"destinations/{self.destination.name}/disable/", {"reason": "together"})

    def release(self) -> None:
        """Have everything claimed again that is due."""
        self.destination.installation.post(f"destinations/{self.destination.name}/enable/", {"reason": "together"})

    def until_begun(self, message_id: int, attempt: int) -> None:
        """Return once the handler has the message."""
        until(
            (self.directory / f"{message_id}-{attempt}.begun").exists,
            SECONDS,
            lambda: self.destination.events(message_id),
        )

    def until_in_turn(self, message_id: int, *, after: int = 0) -> int:
        """Return the number of the message's attempt, greater than `after`, that has begun and was not told how to end.

        A message that was claimed behind another one may have gone back unbegun.
        """
        found: list[int] = []

        def is_in_turn() -> bool:
            begun = {attempt for begun, attempt in self.begun() if begun == message_id and attempt > after}
            told = {int(one.stem.split("-")[1]) for one in self.directory.glob(f"{message_id}-*.deed")}
            found[:] = begun - told
            return bool(found)

        until(is_in_turn, SECONDS, lambda: self.destination.events(message_id))
        return found[0]

    def begun(self) -> set[tuple[int, int]]:
        """Return (message, attempt) of all that the handler has had."""
        names = (one.stem.split("-") for one in self.directory.glob("*.begun"))
        return {(int(message), int(attempt)) for message, attempt in names}

    def has_begun(self, message_id: int, attempt: int) -> bool:
        """Return whether the handler has had the message."""
        return (self.directory / f"{message_id}-{attempt}.begun").exists()

    def end(self, message_id: int, attempt: int, deed: str) -> None:
        """Have the attempt end so, as soon as it has begun."""
        draft = self.directory / f"{message_id}-{attempt}.draft"
        draft.write_text(deed)
        draft.rename(self.directory / f"{message_id}-{attempt}.deed")

    def deliver(self, message_id: int, attempt: int) -> None:
        """Have the attempt end well, as soon as it has begun."""
        self.end(message_id, attempt, "ok")

    def crash(self, message_id: int, attempt: int) -> None:
        """Have the attempt kill its process, as soon as it has begun."""
        self.end(message_id, attempt, "kill SIGKILL")

    def until(self, message_id: int, state: str, event: str) -> Suspicion:
        """Return how suspect the message is once the last thing that happened to it is `event` and led to `state`."""
        until(lambda: self.steps(message_id)[-1:] == [(event, state)], SECONDS, lambda: self.steps(message_id))
        return self.suspicion(message_id)

    def until_passed(self, message_id: int, steps: Sequence[tuple[str, str]]) -> None:
        """Return once its history begins with these (event, state); fail when it goes another way."""
        until(lambda: len(self.steps(message_id)) >= len(steps), SECONDS, lambda: self.steps(message_id))
        assert self.steps(message_id)[: len(steps)] == list(steps)

    def steps(self, message_id: int) -> list[tuple[Any, ...]]:
        """Return (event, state it led to) of its history, oldest first."""
        return self.destination.installation.rows(
            "SELECT event, to_state FROM history WHERE message_id = %s ORDER BY seq", [message_id]
        )

    def suspicion(self, message_id: int) -> Suspicion:
        """Return what the message's row says."""
        ((*values,),) = self.destination.installation.rows(
            "SELECT state, reason, candidate, crash_count, failure_count, attempt_number FROM message WHERE id = %s",
            [message_id],
        )
        return Suspicion(*values)

    def outcomes(self, message_id: int) -> list[str]:
        """Return what its attempts came to, oldest first."""
        return [one["outcome"] for one in self.destination.attempts(message_id)]

    def jobs(self, message_id: int) -> list[tuple[Any, ...]]:
        """Return (kind, worker, state) of the redelivery jobs that its attempts were part of, once they have ended."""

        def found() -> list[tuple[Any, ...]]:
            return self.destination.installation.rows(
                """SELECT kind, split_part(worker, '@', 1), run.state FROM attempt JOIN claim ON claim.id = claim_id
                   JOIN run ON run.id = job_id WHERE message_id = %s ORDER BY attempt_number""",
                [message_id],
            )

        until(lambda: all(state != "running" for _, _, state in found()), SECONDS, found)
        return found()

    def kill_node_of(self, message_id: int) -> None:
        """Kill the process that delivers the message, as the loss of a server would."""
        ((pid,),) = self.destination.installation.rows(
            """SELECT node.pid FROM message JOIN node USING (claim_id, shard)
               WHERE message.id = %s AND state = 'DLNG' AND ended_at IS NULL""",
            [message_id],
        )
        assert os.getpid() in {parent.pid for parent in psutil.Process(pid).parents()}
        os.kill(pid, signal.SIGKILL)
