"""The files of the archive, as the commands of `poisonadmin.archive` use them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pyarrow import fs
from pyspark.sql import SparkSession

from poisonadmin.archive.domain.pieces import PieceOrder, Rewrite, WriteOrder, WrittenFile, WrittenPiece
from poisonadmin.core.domain.archive_place import path_of, unfinished
from workers.spark.jobs.archive import write_pieces
from workers.spark.tables.archive_files import located
from workers.spark.tables.archive_rewrite import rewrite_file


class SparkArchiveStore:
    """Writes pieces by Spark tasks; what is small, from here."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._place = place

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces and read them back."""
        return write_pieces(self._spark, order, pieces)

    def rewrite(self, place: str, file: WrittenFile, change: Rewrite, path: str) -> WrittenFile | None:
        """Write a file anew, and read it back; None when nothing is left of it."""
        return rewrite_file(place, file, change, path)

    def put(self, path: str, content: bytes) -> None:
        """Put a small file, whole or not at all."""
        where, full = located(self._place, path)
        is_local = isinstance(where, fs.LocalFileSystem)
        if is_local:
            where.create_dir(os.path.dirname(full), recursive=True)  # noqa: PTH120  (of any file system)
        with where.open_output_stream(unfinished(full) if is_local else full) as stream:
            stream.write(content)
        if is_local:
            Path(unfinished(full)).replace(full)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, also such as are gone."""
        for path in paths:
            where, full = located(self._place, path)
            if where.get_file_info(full).type != fs.FileType.NotFound:
                where.delete_file(full)

    def listed(self, directory: str) -> list[str]:
        """Return the paths of all files below a directory of the archive."""
        where, full = located(self._place, directory)
        found = where.get_file_info(fs.FileSelector(full, allow_not_found=True, recursive=True))
        return [path_of(one.path) for one in found if one.type == fs.FileType.File]
