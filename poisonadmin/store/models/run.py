"""Long work as rows: runs, with their progress and result, and the workers that carry them out."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.runs.domain.kinds import OPEN, RunState
from poisonadmin.store.models.constraints import only_values_of
from poisonadmin.store.models.secret_fields import SecretsField


class LongRun(models.Model):
    """One piece of long work. While it runs its worker holds the advisory lock (21, id); `heartbeat_at` moves every
    second or so.

    `params`: the request. `secrets`: what its work needs besides and nobody is shown, until the work has taken it.
    `position`: where the next turn goes on; null: the worker that began the run is the only one that can carry it out.
    `result`: what is known so far. `account`, `patterns`: who requested it, and the address patterns that limited the
    account. `tries`: turns that have begun since the run last got on. `turn_at`: when the latest turn began. A turn
    writes only while this is its own time, so that a former turn changes nothing. `resumes_at`: the run waits until
    then, after an error. `former_id`: its id in paths and in the audit log, where it is not `id`: of runs that had a
    table of their own before.
    """

    id = models.BigAutoField(primary_key=True)
    former_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=16)
    state = models.CharField(max_length=10, db_default=RunState.QUEUED.value)
    params = models.JSONField(default=dict)
    secrets = SecretsField(null=True)
    phase = models.CharField(max_length=100, null=True)
    done = models.BigIntegerField(db_default=0)
    total = models.BigIntegerField(null=True)
    result = models.JSONField(null=True)
    position = models.JSONField(null=True)
    error = models.TextField(null=True)
    requested_by = models.CharField(max_length=255)
    account = models.CharField(max_length=255, db_default="")
    patterns = models.JSONField(default=list)
    tries = models.SmallIntegerField(db_default=0)
    worker = models.CharField(max_length=255, null=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    resumes_at = models.DateTimeField(null=True)
    turn_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "run"
        constraints = [only_values_of("state", RunState)]
        indexes = [
            models.Index("kind", "id", name="run_open", condition=Q(state__in=[str(state) for state in OPEN])),
            models.Index(fields=["kind", "-id"], name="run_recent"),
            models.Index("expires_at", name="run_expiry", condition=Q(expires_at__isnull=False)),
        ]


class Worker(models.Model):
    """One row a worker, by the name that Celery has for it, `kind@host`; `heartbeat_at`: when it last took a tick.

    It moves every second in the middle of a tick, however long that takes. `disk_path`: of the places that the worker
    writes to, the one on the disk with the least room, as a share; with its free bytes and its size.
    """

    name = models.CharField(max_length=100, primary_key=True)
    host = models.CharField(max_length=100)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    disk_path = models.TextField(null=True)
    disk_free_bytes = models.BigIntegerField(null=True)
    disk_bytes = models.BigIntegerField(null=True)

    class Meta:
        db_table = "worker"
