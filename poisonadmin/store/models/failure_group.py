"""Annotations of failure groups, their failures by hour and by consumer version; the groups are in attempt.py."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from poisonadmin.store.models.attempt import FailureGroup


class GroupAnnotation(models.Model):
    """Owner, notes and tags of a failure group, apart from its row, which every failure changes.

    `revision` counts the changes; a group without a row here has revision 0.
    """

    group = models.OneToOneField(
        FailureGroup, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="+"
    )
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    note = models.TextField(db_default="")
    ticket_url = models.TextField(null=True)
    tags = ArrayField(models.CharField(max_length=30), default=list)
    snoozed_until = models.DateTimeField(null=True)
    revision = models.IntegerField(db_default=0)

    class Meta:
        db_table = "group_annotation"


class GroupHour(models.Model):
    """The failures of a group on an address in the hour that begins at `hour`; kept for five weeks."""

    pk = models.CompositePrimaryKey("group_id", "hour", "address_id")
    group_id = models.BigIntegerField()
    hour = models.DateTimeField()
    address_id = models.BigIntegerField()
    failures = models.BigIntegerField()

    class Meta:
        db_table = "group_hour"


class GroupVersion(models.Model):
    """With which versions of their consumer messages on an address failed, as consumers state them."""

    pk = models.CompositePrimaryKey("group_id", "consumer_version", "address_id")
    group_id = models.BigIntegerField()
    consumer_version = models.CharField(max_length=100)
    address_id = models.BigIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    failures = models.BigIntegerField()

    class Meta:
        db_table = "group_version"
