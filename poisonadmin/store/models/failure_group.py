"""Annotations, failures of groups by hour and version, proposals to merge alike groups, and regroupings.

The groups are in attempt.py.
"""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.store.models.constraints import only_values_of


class Annotation(models.Model):
    """Owner, tags and note of one subject, a message or a failure group, apart from its row, which deliveries change.

    Rules put tags on messages, too. Ticket and snooze are those of groups; a snooze ends at `snoozed_until`, or when
    the group has `snoozed_failures`, whichever is first. `revision` counts the changes that people make; a subject
    without a row here has revision 0.
    """

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField(null=True)
    group_id = models.BigIntegerField(null=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    tags = ArrayField(models.CharField(max_length=50), default=list)
    note = models.TextField(db_default="")
    ticket_url = models.TextField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    snoozed_failures = models.BigIntegerField(null=True)
    revision = models.IntegerField(db_default=0)

    class Meta:
        db_table = "annotation"
        constraints = [
            models.CheckConstraint(
                condition=Q(message_id__isnull=False, group_id__isnull=True)
                | Q(message_id__isnull=True, group_id__isnull=False),
                name="annotation_of_one_subject",
            ),
            models.UniqueConstraint(
                fields=["message_id"], name="annotation_of_message", condition=Q(message_id__isnull=False)
            ),
            models.UniqueConstraint(
                fields=["group_id"], name="annotation_of_group", condition=Q(group_id__isnull=False)
            ),
        ]
        indexes = [
            models.Index("owner", "message_id", name="annotation_by_owner", condition=Q(owner__isnull=False)),
            GinIndex(fields=["tags"], name="annotation_by_tag"),
        ]


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


class GroupProposal(models.Model):
    """Merge the group `group_id` into `into_id`, as people see them, for two of their failures are alike.

    `into_member`, `group_member`: the groups of these failures' own fingerprints; `into_message`, `group_message`:
    whose failures they are; `into_failure`, `group_failure`: what was compared (groups/alike/queries.py), and
    `text` what they share. `place`: proposals of one place have one `into_id`. `digest`: of the fingerprints of both.
    """

    id = models.BigAutoField(primary_key=True)
    state = models.CharField(max_length=12, db_default=ProposalState.OPEN.value)
    place = models.IntegerField()
    into_id = models.BigIntegerField()
    group_id = models.BigIntegerField()
    into_member = models.BigIntegerField()
    group_member = models.BigIntegerField()
    into_message = models.BigIntegerField()
    group_message = models.BigIntegerField()
    into_failure = models.JSONField()
    group_failure = models.JSONField()
    similarity = models.FloatField()
    text = models.TextField()
    digest = models.CharField(max_length=16, unique=True)
    dismissed_by = models.CharField(max_length=255, null=True)
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "group_proposal"
        constraints = [only_values_of("state", ProposalState)]
        indexes = [
            models.Index("state", "place", "id", name="group_proposal_listed"),
            models.Index("into_message", name="group_proposal_by_into_message"),
            models.Index("group_message", name="group_proposal_by_message"),
        ]


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
