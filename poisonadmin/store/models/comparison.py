"""Comparisons: what failing messages have in common that others have not."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.comparisons.domain.comparison import ComparisonState
from poisonadmin.store.models.choices import only_values_of


class Comparison(models.Model):
    """A selection compared with others; removed after `expires_at`.

    `against`: parameters of `GET /messages/`, None for what was delivered at the same addresses in the same time, until
    the job has said what that is. `account`: the `Principal.person` who asked, limited to `patterns` then.
    `failing_count`, `others_count`: how many there are; `failing`, `others`: how many of them were compared.
    `address_ids`: where the messages of both were; who does not see all of these does not see the comparison, nor, if
    it is `with_payload`, who may not read payloads. `tries`: workers that have begun it.
    `findings` as comparisons/domain/findings.py says.
    """

    id = models.BigAutoField(primary_key=True)
    state = models.CharField(max_length=12, db_default=ComparisonState.QUEUED.value)
    selection_id = models.BigIntegerField()
    against = models.JSONField(null=True)
    is_against_delivered = models.BooleanField()
    with_payload = models.BooleanField()
    account = models.CharField(max_length=255)
    requested_by = models.CharField(max_length=255)
    patterns = models.JSONField(default=list)
    address_ids = ArrayField(models.BigIntegerField(), default=list)
    phase = models.CharField(max_length=100, null=True)
    tries = models.SmallIntegerField(db_default=0)
    failing_count = models.BigIntegerField(null=True)
    others_count = models.BigIntegerField(null=True)
    failing = models.IntegerField(null=True)
    others = models.IntegerField(null=True)
    fields = models.IntegerField(null=True)
    tested = models.BigIntegerField(null=True)
    findings = models.JSONField(default=list)
    error = models.TextField(null=True)
    job_id = models.BigIntegerField(null=True)
    requested_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "comparison"
        constraints = [only_values_of("state", ComparisonState)]
        indexes = [
            models.Index("id", name="comparison_open", condition=Q(finished_at__isnull=True)),
            models.Index("expires_at", name="comparison_by_expiry"),
        ]
