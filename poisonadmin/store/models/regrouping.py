"""Fingerprints that stored failures get by the rules of this version."""

from django.db import models
from django.db.models import Q


class RegroupMove(models.Model):
    """The number of failures, live or archived, that go from a fingerprint (`was`) to another, or keep theirs; and one
    of them, which describes the group. The rows go at the end of the regrouping."""

    pk = models.CompositePrimaryKey("was", "fingerprint", "is_archived")
    was = models.CharField(max_length=16)
    fingerprint = models.CharField(max_length=16)
    is_archived = models.BooleanField()
    n = models.BigIntegerField()
    title = models.CharField(max_length=300)
    error_class = models.CharField(max_length=255)
    message_id = models.BigIntegerField()
    attempt_number = models.IntegerField()
    finished_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        db_table = "regroup_move"


class FingerprintAlias(models.Model):
    """The fingerprint that failures have now, which have a former one in files of the archive.

    Without a message it is that of all of them. Where a former fingerprint became several, single failures have aliases
    of their own; without an attempt number it is that of the message, which has its last failure's.
    """

    id = models.BigAutoField(primary_key=True)
    former = models.CharField(max_length=16)
    message_id = models.BigIntegerField(null=True)
    attempt_number = models.IntegerField(null=True)
    fingerprint = models.CharField(max_length=16)

    class Meta:
        db_table = "fingerprint_alias"
        constraints = [
            models.UniqueConstraint(
                fields=["former", "message_id", "attempt_number"], name="fingerprint_alias_once", nulls_distinct=False
            )
        ]
        indexes = [
            models.Index("message_id", name="fingerprint_alias_of_message", condition=Q(message_id__isnull=False)),
            models.Index("former", name="fingerprint_alias_of_all", condition=Q(message_id__isnull=True)),
        ]
