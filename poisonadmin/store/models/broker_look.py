"""Questions to a broker that a person has asked, for a worker to answer: the web process connects to no broker."""

from enum import StrEnum

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.store.models.choices import only_values_of
from poisonadmin.store.models.intake import Source


class LookPurpose(StrEnum):
    """CONNECTION: can it be drained, and how much waits? PREVIEW: the first messages, left there. QUEUES: which are
    there?"""

    CONNECTION = "connection"
    PREVIEW = "preview"
    QUEUES = "queues"


class BrokerLook(models.Model):
    """One question and, for a quarter of an hour, its answer.

    `source` NULL: the configuration is not saved. `secrets` are those that came with the question, emptied when it is
    answered; where there are none, a source's own are used. Either `answer` or `error` comes with `answered_at`.
    """

    id = models.BigAutoField(primary_key=True)
    purpose = models.CharField(max_length=10)
    source = models.ForeignKey(Source, models.CASCADE, null=True)
    kind = models.CharField(max_length=16)
    config = models.JSONField(default=dict)
    secrets = models.JSONField(default=dict)
    asked_by = models.CharField(max_length=255)
    asked_at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    answer = models.JSONField(null=True)
    error = models.TextField(null=True)

    class Meta:
        db_table = "broker_look"
        constraints = [only_values_of("purpose", LookPurpose)]
        indexes = [models.Index("id", name="broker_look_waiting", condition=Q(taken_at__isnull=True))]
