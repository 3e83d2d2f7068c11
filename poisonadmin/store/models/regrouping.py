"""Fingerprints that stored failures get by the rules of this version, and how far that is."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Regrouping(models.Model):
    """One pass over all failures, made by a Spark job; one at a time is not over.

    Of messages up to `cut_off`, those up to `surveyed` have been looked at. `planned_at`: all of them have, and what
    becomes of the groups is decided (groups/domain/regroup_plan.py): `dissolved` maps groups to those that have their
    failures from then on, `former` are the groups that stand for fingerprints that no group has any more.
    `archive_surveyed`: the last piece of the archive whose failures have been looked at, too.
    `read`, `changed`: failures. `waits_until`: after an error.
    """

    id = models.BigAutoField(primary_key=True)
    cut_off = models.BigIntegerField()
    surveyed = models.BigIntegerField(db_default=0)
    archive_surveyed = models.BigIntegerField(db_default=0)
    planned_at = models.DateTimeField(null=True)
    dissolved = models.JSONField(default=dict)
    former = models.JSONField(default=list)
    read = models.BigIntegerField(db_default=0)
    changed = models.BigIntegerField(db_default=0)
    job_id = models.BigIntegerField(null=True)
    requested_by = models.CharField(max_length=255)
    requested_at = models.DateTimeField(db_default=Now())
    waits_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "regrouping"
        indexes = [models.Index("id", name="regrouping_open", condition=Q(finished_at__isnull=True))]


class RegroupedAttempt(models.Model):
    """A failure whose fingerprint is to be another one; the row goes when it is."""

    pk = models.CompositePrimaryKey("message_id", "attempt_number")
    message_id = models.BigIntegerField()
    attempt_number = models.IntegerField()
    was = models.CharField(max_length=16)
    fingerprint = models.CharField(max_length=16)
    title = models.CharField(max_length=300)

    class Meta:
        db_table = "regrouped_attempt"


class RegroupedArchive(models.Model):
    """Archived failures of a piece whose fingerprint is to be another one: how many, and one of them, which describes
    the group. The row goes when the files of the piece have it."""

    pk = models.CompositePrimaryKey("piece_id", "was", "fingerprint")
    piece_id = models.BigIntegerField()
    was = models.CharField(max_length=16)
    fingerprint = models.CharField(max_length=16)
    n = models.BigIntegerField()
    title = models.CharField(max_length=300)
    error_class = models.CharField(max_length=255)
    message_id = models.BigIntegerField()
    attempt_number = models.IntegerField()
    finished_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        db_table = "regrouped_archive"


class RegroupMove(models.Model):
    """Failures go from one fingerprint to another; or some keep theirs, where the two are the same.

    `held_by`: the group of their messages before. `from_group_id`, `to_group_id`: where they are counted, and where
    they are to be.
    """

    pk = models.CompositePrimaryKey("was", "fingerprint")
    was = models.CharField(max_length=16)
    fingerprint = models.CharField(max_length=16)
    held_by = models.BigIntegerField(null=True)
    from_group_id = models.BigIntegerField(null=True)
    to_group_id = models.BigIntegerField(null=True)

    class Meta:
        db_table = "regroup_move"
