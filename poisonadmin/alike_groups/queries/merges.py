"""What was merged by one click, as it is shown."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.alike_groups.domain.similarity import ALIKE
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import fetch_by_id, fetch_one

# Less is not proposed.
LIKENESS = range(round(ALIKE * 100), 101)
_SELECT = """
SELECT id, likeness, proposals, merged_by, merged_at, undone_by, undone_at FROM alike_merge
"""


@dataclass(frozen=True)
class AlikeMergeRow:
    """What was merged by one click: by `proposals` that were at least `likeness` % alike. It can be undone once."""

    id: int
    likeness: int
    proposals: int
    merged_by: str
    merged_at: datetime
    undone_by: str | None
    undone_at: datetime | None


def get_merge(merge_id: int, *, principal: Principal) -> AlikeMergeRow:
    """Return the merge. Errors: `NotAllowed`, also for accounts that are limited to addresses, `NotFound`."""
    _require_all(principal)
    found = fetch_by_id(AlikeMergeRow, f"{_SELECT} WHERE id = %s", merge_id)
    if found is None:
        raise NotFound(f"There is no merge {merge_id} of groups that look alike.")
    return found


def latest_merge(*, principal: Principal) -> AlikeMergeRow | None:
    """Return what was merged last, while that is not undone; None where there is nothing to undo."""
    if not principal.sees_everything:
        return None
    found = fetch_one(AlikeMergeRow, f"{_SELECT} ORDER BY merged_at DESC, id DESC LIMIT 1")
    return found if found and found.undone_at is None else None


def _require_all(principal: Principal) -> None:
    principal.require(Permission.READ)
    if not principal.sees_everything:
        raise NotAllowed(f"A merge of many groups concerns every address, and {principal.name} is limited to some.")
