"""The poison list that guarded consumers share, and the consumers themselves."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class PoisonEntry(models.Model):
    """One bookmark of a poison source that was reported. Consumers skip it while `is_listed`.

    `source`: any name that consumers agree on; for stored messages their address (R7). `crashes` counts
    reports with `fatal`, `failures` the others; both start again at a release. The limits are those of the last report.
    `why`: the last report's words (AMPS-2). `change` is set whenever `is_listed` changes and grows from one commit to
    the next over all entries, so that a subscriber can tell what it has seen; 0: it never was listed.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.CharField(max_length=255)
    bookmark = models.CharField(max_length=255)
    why = models.TextField()
    is_listed = models.BooleanField(db_default=False)
    is_fatal = models.BooleanField(db_default=False)
    failures = models.IntegerField(db_default=0)
    failure_limit = models.IntegerField(db_default=1)
    crashes = models.IntegerField(db_default=0)
    crash_limit = models.IntegerField(db_default=2)
    reported_by = models.CharField(max_length=255)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    listed_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    released_by = models.CharField(max_length=255, null=True)
    note = models.TextField(null=True)
    message_id = models.BigIntegerField(null=True)
    change = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "poison_entry"
        constraints = [models.UniqueConstraint(fields=["source", "bookmark"], name="poison_entry_once")]
        indexes = [
            models.Index("source", "id", name="poison_entry_listed", condition=Q(is_listed=True)),
            models.Index("source", "change", name="poison_entry_changes", condition=Q(change__gt=0)),
            models.Index("message_id", name="poison_entry_message", condition=Q(message_id__isnull=False)),
        ]


class Consumer(models.Model):
    """A program that runs the guard, by the name it gave itself; it is alive while `heartbeat_at` moves.

    `bookmark`: what it has in progress, None between messages. `version`: as the consumer states it.
    """

    name = models.CharField(max_length=100, primary_key=True)
    source = models.CharField(max_length=255)
    version = models.CharField(max_length=100, null=True)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    bookmark = models.CharField(max_length=255, null=True)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    reported_by = models.CharField(max_length=255)

    class Meta:
        db_table = "consumer"
