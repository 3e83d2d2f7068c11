"""What is staged of broker sources and waits for its merge, source by source."""

from django.db import connection

from poisonadmin.core.commands.locks import alone
from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.commands.merge import Merged, merge_staged
from poisonadmin.sources.domain.draining import batch_prefix, is_for_later
from poisonadmin.store.models.intake import Source

_LEFT_OVER = """
SELECT DISTINCT split_part(batch, ':', 2)::bigint FROM staged_message WHERE batch LIKE 'broker:%'
"""
_BATCHES = "SELECT batch FROM staged_message WHERE batch LIKE %s GROUP BY batch ORDER BY min(id)"


class Merging:
    """Merges one source's batches, oldest first, and sums up what they came to."""

    def __init__(self, source_id: int, actor: str) -> None:
        self.merged = Merged()
        self._source_id = source_id
        self._actor = actor

    def everything(self) -> None:
        """Merge all that is staged; what has to wait for a delivery's outcome is looked at once."""
        for batch in self._batches():
            self._merge(batch)

    def new(self) -> bool:
        """Merge what has been staged since, without another look at what has to wait; return whether there was any."""
        found = [batch for batch in self._batches() if not is_for_later(batch)]
        for batch in found:
            self._merge(batch)
        return bool(found)

    def _merge(self, batch: str) -> None:
        self.merged += merge_staged(batch, actor=self._actor, source_id=self._source_id)

    def _batches(self) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(_BATCHES, [f"{batch_prefix(self._source_id)}%"])
            return [batch for (batch,) in cursor.fetchall()]


def sources_with_staged() -> set[int]:
    """Return the sources of which something is staged, also such as are gone."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT_OVER)
        return {source_id for (source_id,) in cursor.fetchall()}


def merge_left_over(source_id: int) -> Merged:
    """Merge what is staged of a source, whether it is enabled, disabled or gone; return what it came to.

    Nothing where somebody else is at it.
    """
    with alone(Lock.SOURCE, source_id) as is_alone:
        if not is_alone:
            return Merged()
        name = Source.objects.filter(id=source_id).values_list("name", flat=True).first() or str(source_id)
        merging = Merging(source_id, f"source {name}")
        merging.everything()
    return merging.merged
