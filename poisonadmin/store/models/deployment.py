"""Deployments of consumers that were reported, and versions of consumers that were seen alive."""

from django.db import models
from django.db.models.functions import Now

from poisonadmin.deployments.domain.consumers import SeenIn
from poisonadmin.store.models.constraints import only_values_of


class Deployment(models.Model):
    """A version of a consumer that is in use since `at`, as somebody has reported."""

    id = models.BigAutoField(primary_key=True)
    consumer = models.CharField(max_length=255)
    version = models.CharField(max_length=100)
    at = models.DateTimeField()
    reported_by = models.CharField(max_length=255)
    reported_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "deployment"
        constraints = [models.UniqueConstraint(fields=["consumer", "version", "at"], name="deployment_once")]
        indexes = [models.Index(fields=["at", "id"], name="deployment_in_time")]


class SeenVersion(models.Model):
    """A version that a consumer has stated itself, by itself: with its answers or its heartbeats.

    `consumer`: of an answer the destination's name, of a heartbeat its source.
    """

    pk = models.CompositePrimaryKey("seen_in", "consumer", "version")
    seen_in = models.CharField(max_length=12)
    consumer = models.CharField(max_length=255)
    version = models.CharField(max_length=100)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "seen_version"
        constraints = [only_values_of("seen_in", SeenIn)]
