"""The files of the archive, as the regrouping of archived failures uses them."""

from collections.abc import Collection, Mapping, Sequence

from poisonadmin.archive.domain.pieces import WrittenFile
from poisonadmin.archive.domain.regrouping import ArchivedMove, RegroupedPiece
from workers.spark.archive_store import SparkArchiveStore
from workers.spark.jobs.regroup_archive import archived_moves, regroup_files


class SparkRegroupStore(SparkArchiveStore):
    """Has moves counted by Spark tasks; writes files anew from here, as erasures do."""

    def archived_moves(self, files: Sequence[str]) -> Sequence[ArchivedMove]:
        """Return what becomes of the failures in these files of attempts, by the rules of this version."""
        return [ArchivedMove(**row) for row in archived_moves(self._spark, files)]

    def regroup(
        self, place: str, files: Collection[WrittenFile], paths: Mapping[str, str], seen_as: Mapping[str, int]
    ) -> RegroupedPiece:
        """Write the files of a piece anew, as far as they change, and read them back."""
        return RegroupedPiece(*regroup_files(place, files, paths, seen_as))
