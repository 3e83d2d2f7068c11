"""Reports that people keep under a name."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.alerts.domain.kinds import ChannelKind
from poisonadmin.store.models.constraints import only_values_of
from poisonadmin.store.models.secret_fields import SecretListField, WithoutSecrets


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
    secrets = SecretListField(models.TextField(), default=list)
    last_error = models.TextField(null=True)
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    objects = WithoutSecrets()

    class Meta:
        db_table = "saved_report"
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="saved_report_name"),
            only_values_of("channel", ChannelKind, nullable=True),
        ]
        indexes = [models.Index("next_at", name="saved_report_due", condition=Q(next_at__isnull=False))]
