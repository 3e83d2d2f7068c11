"""The states of a deep search."""

from enum import StrEnum


class SearchState(StrEnum):
    """RUNNING from the request on; then COMPLETED, when its hits are frozen, CANCELLED or FAILED."""

    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
