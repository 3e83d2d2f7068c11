"""The files of journals: their directory, and the attempts that are read in those of a lost node."""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.delivery.domain.journal import JOURNAL_BYTES, MAGIC, HeaderField, Journal, Kind, Result, Turn
from poisonadmin.delivery.domain.lost_node import NOWHERE, HeldFor
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcome import Outcome
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.outcomes import result_row
from workers.delivery.handler.sandbox.journal_file import JournalDamaged
from workers.delivery.outcomes import attempt_row, fail
from workers.delivery.run import instant

NODE_LOST_CLASS = "NodeLost"


@dataclass(frozen=True)
class _Origin:
    claim_id: int
    shard: int
    offset: float


@dataclass(frozen=True)
class LeftBehind:
    """The content of one journal of a lost node: results that may not be written yet, and the message in turn."""

    offset: float
    results: tuple[Result, ...]
    turn: Turn | None
    output: bytes


def journal_directory() -> Path:
    """Return where this machine's journals are: `nodes` in POISONADMIN_HOME."""
    home = os.environ.get("POISONADMIN_HOME") or Path(__file__).resolve().parents[4] / ".poisonadmin"
    return Path(home).resolve() / "nodes"


def remove_journals(node_id: int, directory: Path | None = None) -> None:
    """Remove the journals of a node that has ended and written everything."""
    for path in (directory or journal_directory()).glob(f"{node_id}-*"):
        path.unlink(missing_ok=True)


def node_ids(directory: Path) -> set[int]:
    """Return the nodes that have journals there."""
    return {int(number) for path in directory.glob("*-*") if (number := path.name.partition("-")[0]).isdigit()}


def attempts_left_behind(
    directory: Path, *, node_id: int, name: str, claim_id: int, shard: int, destinations: Mapping[int, HeldFor]
) -> list[AttemptRecord] | None:
    """Return the attempts that a lost node made and may not have written; None where its journals are lost or damaged.

    A result is what the handler answered; the message in turn had begun when the node was lost. `destinations`:
    message id -> where it was delivered. Ends a sandbox that outlived its node.
    """
    if not directory.is_dir():
        return None
    rows = []
    try:
        found = list(_read_all(directory, node_id))
    except JournalDamaged:
        return None
    for left in found:
        origin = _Origin(claim_id, shard, left.offset)
        rows += [
            result_row(
                origin,
                _bare(result.message_id, result.attempt_number, destinations),
                result,
                owner=destinations.get(result.message_id, NOWHERE).owner,
            )
            for result in left.results
            if result.kind is not Kind.NOT_LOADED
        ]
        if left.turn is not None:
            rows.append(_lost_row(origin, left, left.turn, name, destinations))
    return rows


def _read_all(directory: Path, node_id: int) -> Iterator[LeftBehind]:
    for path in sorted(directory.glob(f"{node_id}-*")):
        _end_its_sandbox(path)
        data = path.read_bytes()
        if len(data) != JOURNAL_BYTES or (journal := Journal(data)).get(HeaderField.MAGIC) != MAGIC:
            raise JournalDamaged
        results = tuple(result for _, result in journal.results(journal.get(HeaderField.READ)))
        answered = max([journal.get(HeaderField.ANSWERED), *(result.turn for result in results)])
        yield LeftBehind(journal.get_float(HeaderField.CLOCK_OFFSET), results, journal.turn(answered), journal.output())


def _lost_row(
    origin: _Origin, left: LeftBehind, turn: Turn, name: str, destinations: Mapping[int, HeldFor]
) -> AttemptRecord:
    began = instant(turn.began + origin.offset)
    failure = Failure(NODE_LOST_CLASS, f"The node {name} was lost while it handled this message.")
    delivery = _bare(turn.message_id, turn.attempt_number, destinations)
    attempt = attempt_row(origin, delivery, Outcome.NODE_LOST, (began, began), output=left.output or None)
    return fail(attempt, failure, Outcome.NODE_LOST)


def _bare(message_id: int, attempt_number: int, destinations: Mapping[int, HeldFor]) -> Delivery:
    destination = destinations.get(message_id, NOWHERE).destination_id
    return Delivery(message_id, attempt_number, destination, "", "", "")


def _end_its_sandbox(path: Path) -> None:
    """Kill the process that has this journal mapped, should it still run: its node is gone, or past its lease."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(path) in (process / "maps").read_text() and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
