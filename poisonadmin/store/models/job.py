"""Spark and Celery work as rows: what runs, how far it is, its counts; and the workers that run it."""

from enum import StrEnum

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.store.models.choices import only_values_of


class JobKind(StrEnum):
    REDELIVER = "redeliver"
    INGEST = "ingest"
    DRY_RUN = "dry_run"
    REGROUP = "regroup"
    ARCHIVE = "archive"
    ERASE = "erase"
    SEARCH = "search"
    COMPARE = "compare"
    REPORT = "report"
    ALIKE_GROUPS = "alike_groups"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job(models.Model):
    """While it runs its worker holds the advisory lock (21, id); `heartbeat_at` moves every second or so."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=16)
    state = models.CharField(max_length=10, db_default=JobState.QUEUED.value)
    params = models.JSONField(default=dict)
    phase = models.CharField(max_length=100, null=True)
    done = models.BigIntegerField(db_default=0)
    total = models.BigIntegerField(null=True)
    counts = models.JSONField(default=dict)
    error = models.TextField(null=True)
    runs = models.SmallIntegerField(db_default=0)
    max_runs = models.SmallIntegerField(db_default=3)
    worker = models.CharField(max_length=255, null=True)
    requested_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "job"
        constraints = [only_values_of("kind", JobKind), only_values_of("state", JobState)]
        indexes = [
            models.Index("kind", "id", name="job_unfinished", condition=Q(state__in=["queued", "running"])),
            models.Index(fields=["kind", "-id"], name="job_recent"),
        ]


class Worker(models.Model):
    """One row a worker process name; `heartbeat_at` moves every second while it lives, however busy it is."""

    name = models.CharField(max_length=100, primary_key=True)
    host = models.CharField(max_length=100)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "worker"
