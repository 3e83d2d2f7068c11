"""The states of a run of the archive, of its pieces, and of an erasure."""

from enum import StrEnum


class ArchiveRunState(StrEnum):
    """RUNNING piece by piece, then DONE, FAILED or CANCELLED; what is archived by then stays so."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PieceState(StrEnum):
    """PLANNED: its messages are live, whatever files there are. WRITTEN: they are live, and verified files hold them.
    ARCHIVED: they are in its files alone. EMPTY: it has none."""

    PLANNED = "planned"
    WRITTEN = "written"
    ARCHIVED = "archived"
    EMPTY = "empty"


class ErasureState(StrEnum):
    """RUNNING, then DONE or FAILED; a failed one goes on after a while."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
