"""Restart jobs: saved filters whose runs are operations, and how often each has decided on a message."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.decisions.restart_jobs.domain import RESTART_ACTIONS, RunOutcome
from poisonadmin.search.domain.selection import SelectionOrder
from poisonadmin.store.models.constraints import only_values_of


class RestartJob(models.Model):
    """Decides on NDLV messages by itself (SAP-13): each run is an operation on what its filter finds then.

    `schedule`: five cron fields, UTC; None: it runs on request only. `filter` is that of `GET /messages/`: parameter ->
    texts; `limit`: how many messages a run takes, the first in `order`. It decides on a message at most `max_restarts`
    times. `canary`: its operations try some messages first. A run has the rights that the owner has at that time:
    `owner_account` is the `account` of a `Principal`, empty for PoisonAdmin itself.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    schedule = models.CharField(max_length=100, null=True)
    filter = models.JSONField(default=dict)
    action = models.CharField(max_length=16)
    reason = models.TextField()
    include_blacklisted = models.BooleanField(db_default=False)
    limit = models.IntegerField(null=True)
    order = models.CharField(max_length=16, db_default=SelectionOrder.OLDEST.value)
    max_restarts = models.IntegerField(db_default=1)
    rate_per_second = models.FloatField(null=True)
    canary = models.BooleanField(db_default=False)
    is_enabled = models.BooleanField(db_default=False)
    next_at = models.DateTimeField(null=True)
    owner = models.CharField(max_length=255)
    owner_account = models.CharField(max_length=255)
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "restart_job"
        constraints = [
            only_values_of("action", RESTART_ACTIONS),
            only_values_of("order", SelectionOrder),
            models.CheckConstraint(
                condition=Q(is_enabled=False) | Q(schedule__isnull=False), name="restart_job_on_by_schedule"
            ),
        ]
        indexes = [models.Index("next_at", name="restart_job_due", condition=Q(is_enabled=True))]


class RestartRun(models.Model):
    """A run of a restart job. `operation_id`: what it began; None where it began nothing, for which `detail` says why.

    `asked_by`: the person who asked for it; None where the schedule did.
    """

    id = models.BigAutoField(primary_key=True)
    restart_job_id = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())
    asked_by = models.CharField(max_length=255, null=True)
    outcome = models.CharField(max_length=16)
    detail = models.TextField(null=True)
    operation_id = models.BigIntegerField(null=True)

    class Meta:
        db_table = "restart_run"
        constraints = [only_values_of("outcome", RunOutcome)]
        indexes = [models.Index(fields=["restart_job_id", "-id"], name="restart_run_by_job")]


class Restart(models.Model):
    """The number of times that operations of a restart job have changed a message; undone changes do not count."""

    pk = models.CompositePrimaryKey("restart_job_id", "message_id")
    restart_job_id = models.BigIntegerField()
    message_id = models.BigIntegerField()
    times = models.IntegerField(db_default=1)

    class Meta:
        db_table = "restart"
