"""Removes the patches of operations whose payload is removed; such an operation is about one message alone."""

from collections.abc import Sequence

from django.db.backends.utils import CursorWrapper

_FORGET = """
UPDATE operation AS o SET params = params - %(names)s::text[]
WHERE action = 'patch' AND params ?| %(names)s::text[] AND (
    EXISTS (SELECT FROM operation_result AS r WHERE r.operation_id = o.id AND r.message_id = ANY(%(ids)s))
    OR EXISTS (SELECT FROM archived_result AS r WHERE r.operation_id = o.id AND r.message_ids && %(ids)s::bigint[])
    OR EXISTS (SELECT FROM payload_version AS v WHERE v.operation_id = o.id AND v.message_id = ANY(%(ids)s)))
"""


def forget_patches(cursor: CursorWrapper, ids: Sequence[int], *names: str) -> None:
    """Remove these parameters from the operations that have patched one of the messages.

    Call it before the former versions of the messages go; where they have gone, the operations' results tell.
    """
    cursor.execute(_FORGET, {"ids": list(ids), "names": list(names)})
