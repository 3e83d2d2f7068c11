"""The extent in which a table is read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.messages.domain.id_ranges import IdRange


@dataclass(frozen=True)
class Extent:
    """The extent in which a table is read: ranges of ids in the database, and files of the archive (paths or URLs).

    `ids`: single messages in the database beside the ranges, rising.
    """

    ranges: Sequence[IdRange] = ()
    files: Sequence[str] = ()
    ids: Sequence[int] = ()

    def as_options(self) -> dict[str, str]:
        """Return the extent as options of a Spark data source."""
        ranges = [[one.after, one.until] for one in self.ranges]
        return {"ranges": json.dumps(ranges), "files": json.dumps(list(self.files)), "ids": json.dumps(list(self.ids))}


def from_options(options: Mapping[str, str]) -> Extent:
    """Return the extent that options of a Spark data source say."""
    ranges = [IdRange(after, until) for after, until in json.loads(options.get("ranges", "[]"))]
    return Extent(ranges, json.loads(options.get("files", "[]")), json.loads(options.get("ids", "[]")))
