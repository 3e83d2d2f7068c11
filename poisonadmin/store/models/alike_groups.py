"""Failure groups that look alike: searches for them, and what they propose to merge."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.groups.alike.domain.proposals import AlikeSearchState, ProposalState
from poisonadmin.store.models.choices import only_values_of


class AlikeSearch(models.Model):
    """A search for groups that look alike. `groups_digest`: of the groups that there were, to tell whether they have
    changed since. `groups`: fingerprints that were compared; `left_out`: those that were not, for their number or since
    no failure of theirs is left. `tries`: workers that have begun it."""

    id = models.BigAutoField(primary_key=True)
    state = models.CharField(max_length=12, db_default=AlikeSearchState.QUEUED.value)
    requested_by = models.CharField(max_length=255)
    requested_at = models.DateTimeField(db_default=Now())
    phase = models.CharField(max_length=100, null=True)
    tries = models.SmallIntegerField(db_default=0)
    job_id = models.BigIntegerField(null=True)
    groups = models.IntegerField(null=True)
    left_out = models.IntegerField(null=True)
    proposals = models.IntegerField(null=True)
    groups_digest = models.CharField(max_length=32, null=True)
    error = models.TextField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "alike_search"
        constraints = [only_values_of("state", AlikeSearchState)]
        indexes = [
            models.Index("id", name="alike_search_open", condition=Q(finished_at__isnull=True)),
            models.Index(fields=["-requested_at"], name="alike_search_recent"),
        ]


class GroupProposal(models.Model):
    """Merge the group `group_id` into `into_id`, as people see them, for two of their failures are alike.

    `into_member`, `group_member`: the groups of these failures' own fingerprints; `into_message`, `group_message`:
    whose failures they are; `into_failure`, `group_failure`: what was compared (groups/alike/domain/compared.py), and
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
