"""The pieces and files of the archive, the index of its messages, legal holds, and the traces of erasures.

`run_id`, `erasure_id`: the run's id in paths (LongRun).
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.archive.domain.pieces import PieceState
from poisonadmin.messages.domain.outcomes import RECORDED
from poisonadmin.store.models.constraints import only_values_of


class ArchivePiece(models.Model):
    """The messages of a run with ids above `after_id`, up to `until_id`.

    `held_by`: the legal holds that were asked when it was written. `rows`: what the database had of it then, by table
    `[rows, sum of their xmin]`; nothing has changed while these are the same.
    """

    id = models.BigAutoField(primary_key=True)
    run_id = models.BigIntegerField(db_index=True)
    number = models.IntegerField()
    after_id = models.BigIntegerField()
    until_id = models.BigIntegerField()
    state = models.CharField(max_length=8, db_default=PieceState.PLANNED.value)
    held_by = ArrayField(models.BigIntegerField(), default=list)
    rows = models.JSONField(default=dict)

    class Meta:
        db_table = "archive_piece"
        constraints = [
            only_values_of("state", PieceState),
            models.UniqueConstraint(fields=["run_id", "number"], name="archive_piece_once"),
        ]


class ArchiveFile(models.Model):
    """A Parquet file: rows of one table of messages that ended on a day at addresses of one root.

    `path`: within the archive. `first_id`, `last_id`: of its messages. `is_current`: its rows are nowhere else, but for
    those of `ArchiveLeftOut`; a file that is not yet, or no longer, is not read. `sha256`: of its bytes;
    `rows_sha256`: of its rows, as workers/spark/tables/archive_files.py says.
    """

    id = models.BigAutoField(primary_key=True)
    run_id = models.BigIntegerField(db_index=True)
    piece = models.ForeignKey(ArchivePiece, models.PROTECT)
    table_name = models.CharField(max_length=20)
    path = models.CharField(max_length=1000, unique=True)
    day = models.DateField()
    root = models.CharField(max_length=255)
    rows = models.BigIntegerField()
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    rows_sha256 = models.CharField(max_length=64)
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    is_current = models.BooleanField(db_default=False)

    class Meta:
        db_table = "archive_file"
        indexes = [models.Index("table_name", "day", "root", name="archive_file_read", condition=Q(is_current=True))]


class ArchivedMessage(models.Model):
    """By what an archived message is found, and the piece whose files have the rest. Its business keys stay as well.

    `original_address_id`: where it was moved from, or came in; null where that is its address, or it was archived
    before this was kept.
    """

    id = models.BigIntegerField(primary_key=True)
    piece_id = models.BigIntegerField()
    address_id = models.BigIntegerField()
    original_address_id = models.BigIntegerField(null=True)
    state = models.CharField(max_length=4)
    reason = models.CharField(max_length=32, null=True)
    group_id = models.BigIntegerField(null=True)
    state_at = models.DateTimeField()
    received_at = models.DateTimeField()
    failed_at = models.DateTimeField(null=True)
    message_id = models.CharField(max_length=255)
    conversation_id = models.CharField(max_length=255, null=True)

    class Meta:
        db_table = "archived_message"
        indexes = [
            models.Index(fields=["message_id"], opclasses=["varchar_pattern_ops"], name="archived_by_message_id"),
            models.Index(
                fields=["conversation_id"],
                opclasses=["varchar_pattern_ops"],
                name="archived_by_conversation",
                condition=Q(conversation_id__isnull=False),
            ),
            models.Index("address_id", "id", name="archived_by_address"),
        ]


class ArchivedResult(models.Model):
    """Members of an operation whose results of one outcome are in the files of a piece: how many, and which.

    The operation's ledger counts `n`. Of erased members no number is kept; `piece_id` is null where these were live.
    """

    id = models.BigAutoField(primary_key=True)
    operation_id = models.BigIntegerField()
    piece_id = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=16)
    code = models.CharField(max_length=32, null=True)
    n = models.IntegerField()
    message_ids = ArrayField(models.BigIntegerField(), default=list)

    class Meta:
        db_table = "archived_result"
        constraints = [only_values_of("outcome", RECORDED)]
        indexes = [
            models.Index("operation_id", "outcome", name="archived_result_of_operation"),
            models.Index("piece_id", name="archived_result_of_piece"),
        ]


class ArchiveLeftOut(models.Model):
    """A message whose rows in the files of a piece do not count any more: it is live again, or erased."""

    pk = models.CompositePrimaryKey("piece_id", "message_id")
    piece_id = models.BigIntegerField()
    message_id = models.BigIntegerField()

    class Meta:
        db_table = "archive_left_out"


class RemovedPayload(models.Model):
    """A message, live or archived, whose payload is gone: after how many days, and by the policy of which pattern.

    Whatever would deliver the message looks for this row first (decisions/queries/refusals.py).
    """

    message_id = models.BigIntegerField(primary_key=True)
    removed_at = models.DateTimeField(db_default=Now())
    kept_days = models.IntegerField()
    policy = models.CharField(max_length=255)

    class Meta:
        db_table = "removed_payload"


class LegalHold(models.Model):
    """Keeps messages that match `filter` (as of `GET /messages/`) from archive and erasure until it is lifted."""

    id = models.BigAutoField(primary_key=True)
    filter = models.JSONField(default=dict)
    reason = models.TextField()
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    lifted_by = models.CharField(max_length=255, null=True)
    lifted_at = models.DateTimeField(null=True)
    lift_reason = models.TextField(null=True)

    class Meta:
        db_table = "legal_hold"
        indexes = [models.Index("id", name="legal_hold_in_force", condition=Q(lifted_at__isnull=True))]


class HeldMessage(models.Model):
    """A message that some hold keeps out of the piece that is being written."""

    message_id = models.BigIntegerField(primary_key=True)

    class Meta:
        db_table = "held_message"


class ErasedMessage(models.Model):
    """The trace of an erased message: its number, its address, and the erasure, which says who and why.

    While it is in `ArchiveLeftOut` too, the files of that piece still have its rows.
    """

    id = models.BigIntegerField(primary_key=True)
    erasure_id = models.BigIntegerField()
    address_id = models.BigIntegerField()
    erased_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "erased_message"


class DayFigure(models.Model):
    """A count of a day (UTC) at an address, kept for 25 months: archive/domain/figures.py says of what.

    Of archived messages it is a state in which they ended, decisions or tries; of all messages, failures.
    """

    pk = models.CompositePrimaryKey("day", "address_id", "figure")
    day = models.DateField()
    address_id = models.BigIntegerField()
    figure = models.CharField(max_length=20)
    n = models.BigIntegerField()

    class Meta:
        db_table = "day_figure"
