"""Counts of messages, exact at any moment."""

from poisonadmin.queries.counts import ByState, Counts, counts

__all__ = ["ByState", "Counts", "counts"]
