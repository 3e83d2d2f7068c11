"""Proposals to merge failure groups that look alike."""

from django.db import models

from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.store.models.choices import only_values_of


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
