"""What is said between who regroups archived failures (commands) and who reads and writes their files (workers)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.archive.domain.pieces import WrittenFile


@dataclass(frozen=True)
class ArchivedMove:
    """Failures of a piece that go from a fingerprint to another, or keep theirs: how many, when, and the first."""

    was: str
    fingerprint: str
    n: int
    title: str
    error_class: str
    message_id: int
    attempt_number: int
    finished_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class RegroupedPiece:
    """The files of a piece that were written anew, by their former ones; and the messages whose failure changes, each
    with the fingerprint of its last one."""

    files: Mapping[str, WrittenFile]
    messages: Mapping[int, str]
