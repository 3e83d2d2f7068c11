"""Reports that were asked for, those that people keep under a name, and what was sent of them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.alerts.domain.kinds import ChannelKind
from poisonadmin.reports.domain.asked import OPEN, ReportState
from poisonadmin.reports.domain.kinds import ReportKind
from poisonadmin.store.models.choices import only_values_of


class SavedReport(models.Model):
    """A report under a name. `asked` as reports/domain/asked.py says; with `days` its period is so many whole days
    before a run.

    A run has the rights that the owner has at that time: `owner_account` is the `account` of a `Principal`. `schedule`:
    five cron fields in the report's time zone. `channel`: how others are told, at `to`; `secrets` sign a webhook.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100)
    owner = models.CharField(max_length=255)
    owner_account = models.CharField(max_length=255)
    is_shared = models.BooleanField(db_default=False)
    asked = models.JSONField()
    days = models.IntegerField(null=True)
    schedule = models.CharField(max_length=100, null=True)
    next_at = models.DateTimeField(null=True)
    channel = models.CharField(max_length=16, null=True)
    to = ArrayField(models.TextField(), default=list)
    secrets = ArrayField(models.TextField(), default=list)
    last_error = models.TextField(null=True)
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "saved_report"
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="saved_report_name"),
            only_values_of("channel", ChannelKind, nullable=True),
        ]
        indexes = [models.Index("next_at", name="saved_report_due", condition=Q(next_at__isnull=False))]


class RequestedReport(models.Model):
    """A report that was asked for; a Spark job makes its file. `asked` as reports/domain/asked.py says.

    `account`, `patterns`: of who asked; only who sees as much sees the report. `shows_payload`: who may not read
    payloads does not see it either. `place`: how far the job is, from which a turn goes on; `moved_at` when it last
    was. `done`: of `total` messages. `rows`, `bytes`, `sha256`: of the file, which is removed after `expires_at`.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=20)
    state = models.CharField(max_length=10, db_default=ReportState.QUEUED.value)
    asked = models.JSONField()
    saved = models.ForeignKey(SavedReport, models.SET_NULL, null=True, db_constraint=False)
    shows_payload = models.BooleanField()
    cut_off = models.BigIntegerField()
    place = models.JSONField(default=dict)
    done = models.BigIntegerField(db_default=0)
    total = models.BigIntegerField(db_default=0)
    rows = models.BigIntegerField(null=True)
    bytes = models.BigIntegerField(null=True)
    sha256 = models.CharField(max_length=64, null=True)
    error = models.TextField(null=True)
    job_id = models.BigIntegerField(null=True)
    requested_by = models.CharField(max_length=255)
    account = models.CharField(max_length=255)
    patterns = models.JSONField(default=list)
    requested_at = models.DateTimeField(db_default=Now())
    moved_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "report"
        constraints = [only_values_of("state", ReportState), only_values_of("kind", ReportKind)]
        indexes = [
            models.Index("id", name="report_open", condition=Q(state__in=[str(state) for state in OPEN])),
            models.Index("expires_at", name="report_expiry", condition=Q(state=ReportState.READY.value)),
        ]
