"""Sources, staged messages, rejected lines, and the checks of brokers."""

from enum import StrEnum

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.store.models.constraints import only_values_of
from poisonadmin.store.models.secret_fields import SecretsField, WithoutSecrets


class SourceKind(StrEnum):
    """The kinds beside those of brokers."""

    DIRECTORY = "directory"


SOURCE_KINDS = (*map(str, SourceKind), *BROKERS)


class FileState(StrEnum):
    """SEEN is found and stable; STAGED is read to its end, whole, and being merged; TAKEN is merged, once; BROKEN
    cannot be read.

    A job killed before STAGED stages the missing parts again; one killed after it only goes on merging.
    """

    SEEN = "seen"
    STAGED = "staged"
    TAKEN = "taken"
    BROKEN = "broken"


class Source(models.Model):
    """A directory or some broker queues that PoisonAdmin drains.

    `config` is what a viewer may see, `secrets` (`username`, `password`) are write-only. `lag`: how many messages the
    broker had left at `checked_at`. After `failures` checks in a row the next is not before `next_check_at`.
    `accepted`, `duplicates`, `rejected`, `returned` count what came from a broker (a directory's are counted by file);
    `returned` are messages that we had delivered and that came back.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16)
    config = models.JSONField(default=dict)
    secrets = SecretsField(default=dict)
    is_enabled = models.BooleanField(db_default=True)
    lag = models.BigIntegerField(null=True)
    checked_at = models.DateTimeField(null=True)
    failures = models.IntegerField(db_default=0)
    next_check_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    last_error_at = models.DateTimeField(null=True)
    accepted = models.BigIntegerField(db_default=0)
    duplicates = models.BigIntegerField(db_default=0)
    rejected = models.BigIntegerField(db_default=0)
    returned = models.BigIntegerField(db_default=0)
    version = models.IntegerField(db_default=1)
    created_at = models.DateTimeField(db_default=Now())

    objects = WithoutSecrets()

    class Meta:
        db_table = "source"
        constraints = [only_values_of("kind", SOURCE_KINDS)]


class BrokerReceipt(models.Model):
    """A message that was stored and may not be acknowledged yet, where its broker gives it no identity.

    Written with the staged row, removed once the broker has taken the acknowledgement: what is delivered again in
    between has the same `digest`, and is not stored a second time. `owner`: the reader that still holds the message, by
    the key of its advisory lock (workers/brokers/staging.py); nobody, where no session holds that.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey(Source, models.CASCADE, db_index=False)
    digest = models.BinaryField()
    owner = models.IntegerField(db_default=0)
    stored_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "broker_receipt"
        indexes = [models.Index("source", "digest", name="broker_receipt_by_digest")]


class SourceFile(models.Model):
    """One file of a directory source, identified by path, size and modification time, so that it is taken exactly
    once."""

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey(Source, models.CASCADE)
    path = models.TextField()
    size_bytes = models.BigIntegerField()
    modified_ns = models.BigIntegerField()
    state = models.CharField(max_length=8, db_default=FileState.SEEN.value)
    job_id = models.BigIntegerField(null=True)
    accepted = models.BigIntegerField(db_default=0)
    duplicates = models.BigIntegerField(db_default=0)
    rejected = models.BigIntegerField(db_default=0)
    error = models.TextField(null=True)
    seen_at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "source_file"
        constraints = [
            models.UniqueConstraint(fields=["source", "path", "size_bytes", "modified_ns"], name="source_file_once"),
            only_values_of("state", FileState),
        ]
        indexes = [
            models.Index(
                "source", "id", name="source_file_seen", condition=Q(state__in=[FileState.SEEN, FileState.STAGED])
            )
        ]


class StagedMessage(models.Model):
    """A parsed line that waits for the merge. Its body is already in `body` under `id`; a duplicate's body is removed
    by the merge.

    `batch` names one unit that is merged at once: `file:<source_file>:<part>`, `batch:<uuid>` or
    `broker:<source>:<uuid>`, or `broker:<source>:later:<uuid>` for what came back before we know that it was delivered.
    `dead_letter` is the JSON of envelope.DeadLetter or NULL.
    """

    id = models.BigIntegerField(primary_key=True)
    batch = models.CharField(max_length=100)
    line = models.BigIntegerField()
    address = models.CharField(max_length=255)
    message_id = models.CharField(max_length=255)
    conversation_id = models.CharField(max_length=255, null=True)
    bookmark = models.CharField(max_length=255, null=True)
    content_type = models.CharField(max_length=255)
    payload_bytes = models.IntegerField()
    expires_at = models.DateTimeField(null=True)
    dead_letter = models.BinaryField(null=True)

    class Meta:
        db_table = "staged_message"
        indexes = [models.Index("batch", name="staged_message_by_batch")]


class RejectedLine(models.Model):
    """A line that could not be taken in: its number, why, and all its bytes."""

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey(Source, models.CASCADE, null=True)
    source_file = models.ForeignKey(SourceFile, models.CASCADE, null=True)
    batch = models.CharField(max_length=100)
    line = models.BigIntegerField()
    code = models.CharField(max_length=64)
    detail = models.TextField()
    raw = models.BinaryField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "rejected_line"
        constraints = [models.UniqueConstraint(fields=["batch", "line"], name="rejected_line_once")]
