"""Ends reports, searches and comparisons that may quote erased messages.

None says which messages it is of, so all of them end. Their own clean-up removes the rows and files within minutes.
"""

from django.db.backends.utils import CursorWrapper

from poisonadmin.runs.commands.requests import end_runs
from poisonadmin.runs.domain.kinds import QUOTING

_WHY = "Messages were erased, which it may quote; ask for it again."
_END = """
UPDATE report SET state = 'expired', expires_at = now(), error = %(why)s WHERE state = 'ready';
UPDATE report SET state = 'failed', ended_at = now(), error = %(why)s WHERE state IN ('queued', 'running')
"""


def end_quotations(cursor: CursorWrapper) -> None:
    """End all that was made, or begun, while the messages were there; nobody is shown any of it from now on."""
    for statement in _END.split(";\n"):
        cursor.execute(statement, {"why": _WHY})
    end_runs(cursor, QUOTING, why=_WHY)
