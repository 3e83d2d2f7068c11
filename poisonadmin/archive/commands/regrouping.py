"""Regrouping of archived failures: what changes is noted piece by piece, and files that change are written anew.

`messages.commands.regrouping` calls both: it decides on the groups in between. A piece's notes go with the exchange of
its files, in one transaction, so a failure is moved once, whatever is killed. The archive moves no messages meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from poisonadmin.archive.commands import rewriting
from poisonadmin.archive.commands.rewriting import FileReplaced, FileStore, Replacement, as_written
from poisonadmin.archive.domain.pieces import WrittenFile
from poisonadmin.archive.domain.regrouping import ArchivedMove, RegroupedPiece
from poisonadmin.archive.domain.runs import PieceState
from poisonadmin.core.commands import locks
from poisonadmin.core.commands.locks import Tick
from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.groups.commands.regrouping import MustPause
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece
from poisonadmin.store.models.regrouping import RegroupedArchive, Regrouping

_TABLES = ("attempts", "messages")
_MOVES = """
INSERT INTO regroup_move (was, fingerprint) SELECT * FROM unnest(%s::text[], %s::text[]) AS one (was, fingerprint)
ORDER BY 1, 2 ON CONFLICT DO NOTHING
"""
_SEEN_AS = "SELECT fingerprint, coalesce(merged_into_id, id) FROM failure_group WHERE fingerprint = ANY(%s)"
_INDEX = """
UPDATE archived_message SET group_id = g.id
FROM unnest(%s::bigint[], %s::text[]) AS one (id, fingerprint) JOIN failure_group AS g USING (fingerprint)
WHERE archived_message.id = one.id AND piece_id = %s
"""
# Groups are locked in the order of their fingerprints, as settles do.
_LOCK = """
SELECT FROM failure_group WHERE id IN (
    SELECT unnest(ARRAY[from_group_id, to_group_id]) FROM regroup_move WHERE was = ANY(%s))
ORDER BY fingerprint FOR UPDATE
"""
_COUNT = """
WITH moved AS (
    SELECT move.from_group_id, move.to_group_id, one.n, one.first_at, one.last_at
    FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
         AS one (was, fingerprint, n, first_at, last_at)
         JOIN regroup_move AS move USING (was, fingerprint)
    WHERE move.from_group_id <> move.to_group_id
), changed AS (
    SELECT group_id, sum(n) AS n, min(first_at) AS first_at, max(last_at) AS last_at FROM (
        SELECT to_group_id AS group_id, n, first_at, last_at FROM moved
        UNION ALL SELECT from_group_id, -n, NULL, NULL FROM moved) AS sides
    GROUP BY 1
)
UPDATE failure_group AS g SET failures = GREATEST(g.failures + changed.n, 0),
    first_at = LEAST(g.first_at, changed.first_at), last_at = GREATEST(g.last_at, changed.last_at)
FROM changed WHERE g.id = changed.group_id
"""


class RegroupStore(FileStore, Protocol):
    """What keeps the files, and reads them. Passed in: what writes (workers) imports this package."""

    def archived_moves(self, files: Sequence[str]) -> Sequence[ArchivedMove]:
        """Return what becomes of the failures in these files of attempts, by the rules of this version."""

    def regroup(
        self, place: str, files: Collection[WrittenFile], paths: Mapping[str, str], seen_as: Mapping[str, int]
    ) -> RegroupedPiece:
        """Write the files of a piece anew, as far as they change, and read them back. `paths`: where each goes;
        `seen_as`: the group of each fingerprint."""


class ArchivedRegrouping:
    """The part of a regrouping that is in files."""

    def __init__(self, store: RegroupStore) -> None:
        self._store = store

    def survey(self, run: Regrouping, must_pause: MustPause) -> bool:
        """Note what changes in the archive, piece by piece; return False when it paused before the end."""
        pieces = ArchivePiece.objects.filter(state=PieceState.ARCHIVED, id__gt=run.archive_surveyed).order_by("id")
        # A turn of the archive that began before the regrouping was asked for still moves messages.
        with locks.single_flight(Tick.ARCHIVE) as alone, locks.shared(Lock.TABLES) as is_shared:
            for piece_id in pieces.values_list("id", flat=True):
                if must_pause() or not (alone and is_shared):
                    return False
                self._survey_piece(run, piece_id)
        return alone

    def _survey_piece(self, run: Regrouping, piece_id: int) -> None:
        files = ArchiveFile.objects.filter(piece_id=piece_id, table_name="attempts", is_current=True)
        paths = [within(settings.ARCHIVE, path) for path in files.values_list("path", flat=True)]
        moves = self._store.archived_moves(paths) if paths else []
        changing = [one for one in moves if one.was != one.fingerprint]
        with transaction.atomic(), connection.cursor() as cursor:
            RegroupedArchive.objects.filter(piece_id=piece_id).delete()
            RegroupedArchive.objects.bulk_create(RegroupedArchive(piece_id=piece_id, **vars(one)) for one in changing)
            cursor.execute(_MOVES, [[one.was for one in moves], [one.fingerprint for one in moves]])
            Regrouping.objects.filter(id=run.id).update(
                archive_surveyed=piece_id,
                read=F("read") + sum(one.n for one in moves),
                changed=F("changed") + sum(one.n for one in changing),
            )

    def move(self, must_pause: MustPause) -> bool:
        """Write the files anew that change, piece by piece; return False when it paused, or somebody reads them."""
        pieces = fetch_values("SELECT DISTINCT piece_id FROM regrouped_archive ORDER BY 1")
        for piece_id in pieces:
            if must_pause() or not self._move_piece(piece_id):
                return False
        rewriting.remove_former(self._store)
        return True

    def _move_piece(self, piece_id: int) -> bool:
        """Write the files of a piece anew and exchange them; what is left to do after a crash is what is noted."""
        noted = list(RegroupedArchive.objects.filter(piece_id=piece_id))
        seen_as = dict(fetch_rows(_SEEN_AS, [[one.fingerprint for one in noted]]))
        files = ArchiveFile.objects.filter(piece_id=piece_id, is_current=True, table_name__in=_TABLES).order_by("id")
        successors = rewriting.note_successors(files)
        paths = {old.path: new.path for old, new in successors}
        new = self._store.regroup(settings.ARCHIVE, [as_written(old) for old, _ in successors], paths, seen_as)
        replaced = [Replacement(old, later, new.files[old.path]) for old, later in successors if old.path in new.files]
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                if not locks.try_lock(cursor, Lock.TABLES):
                    raise FileReplaced
                rewriting.put_in_place(replaced)
                cursor.execute(_INDEX, [list(new.messages), list(new.messages.values()), piece_id])
                cursor.execute(_LOCK, [[one.was for one in noted]])
                names = ("was", "fingerprint", "n", "finished_at", "last_at")
                cursor.execute(_COUNT, [[getattr(one, name) for one in noted] for name in names])
                RegroupedArchive.objects.filter(piece_id=piece_id).update(n=0)
        except FileReplaced:
            rewriting.remove_former(self._store)
            return False
        rewriting.tidy(self._store, piece_id)
        RegroupedArchive.objects.filter(piece_id=piece_id).delete()
        return True
