"""What may quote messages that are erased: reports, results of searches, comparisons.

None says which messages it is of, so all of them end. Their own clean-up removes the rows and files within minutes.
"""

from django.db.backends.utils import CursorWrapper

_WHY = "Messages were erased, which it may quote; ask for it again."
_END = """
UPDATE report SET state = 'expired', expires_at = now(), error = %(why)s WHERE state = 'ready';
UPDATE report SET state = 'failed', ended_at = now(), error = %(why)s WHERE state IN ('queued', 'running');
UPDATE search SET expires_at = now() WHERE state <> 'running';
UPDATE search SET state = 'failed', ended_at = now(), expires_at = now(), error = %(why)s WHERE state = 'running';
UPDATE comparison SET expires_at = now() WHERE finished_at IS NOT NULL;
UPDATE comparison SET state = 'failed', finished_at = now(), expires_at = now(), error = %(why)s
WHERE finished_at IS NULL
"""


def end_quotations(cursor: CursorWrapper) -> None:
    """End all that was made, or begun, while the messages were there; nobody is shown any of it from now on."""
    for statement in _END.split(";\n"):
        cursor.execute(statement, {"why": _WHY})
