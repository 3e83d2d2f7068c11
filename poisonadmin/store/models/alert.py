"""Alert rules, the alerts that they opened, and what is sent of them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.alerts.domain.kinds import AlertDeliveryState, AlertKind, ChannelKind
from poisonadmin.store.models.constraints import only_values_of
from poisonadmin.store.models.report import SavedReport
from poisonadmin.store.models.secret_fields import SecretListField, WithoutSecrets


class AlertRule(models.Model):
    """A rule for alerts and their receivers; the fields as in alerts/domain/rules.py.

    `secrets`: of a webhook, the newest first; the one before is used too until `old_secret_until`. `failing_since`:
    when the first of the tries failed that have failed since the last one that did not. `send_resolved`: it sends too
    that an alert is over.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    kinds = ArrayField(models.CharField(max_length=32))
    addresses = ArrayField(models.CharField(max_length=255))
    limits = models.JSONField(default=dict)
    growth = models.CharField(max_length=16, db_default="100")
    search = models.CharField(max_length=1000, db_default="")
    channel = models.CharField(max_length=16)
    to = ArrayField(models.TextField())
    secrets = SecretListField(models.TextField(), default=list)
    old_secret_until = models.DateTimeField(null=True)
    quiet_from = models.CharField(max_length=5, null=True)
    quiet_until = models.CharField(max_length=5, null=True)
    time_zone = models.CharField(max_length=64)
    repeat_minutes = models.IntegerField()
    send_resolved = models.BooleanField(db_default=False)
    is_enabled = models.BooleanField(db_default=True)
    failing_since = models.DateTimeField(null=True)
    owner = models.CharField(max_length=255)
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    objects = WithoutSecrets()

    class Meta:
        db_table = "alert_rule"
        constraints = [only_values_of("channel", ChannelKind)]


class AlertDelivery(models.Model):
    """Some alerts of a rule, sent together, or the notice that a report of a saved one is ready.

    It is made in the transaction that records the first of them, or ends the report.
    `body` is written with the first try, and stays; while it is NULL more alerts may join. `due_at`: of the next try;
    it is moved before a try begins, so that one that dies is made again. `planned_at`: of the first. `is_held`: it
    waits for the end of quiet hours, or of a rule's pause, and what is over by then is left out. `is_resolution`: it
    says that its alerts are over. `log`: the answers.
    """

    id = models.BigAutoField(primary_key=True)
    rule = models.ForeignKey(AlertRule, models.CASCADE, null=True)
    saved = models.ForeignKey(SavedReport, models.CASCADE, null=True)
    state = models.CharField(max_length=8, db_default=AlertDeliveryState.WAITING.value)
    is_held = models.BooleanField(db_default=False)
    is_test = models.BooleanField(db_default=False)
    is_resolution = models.BooleanField(db_default=False)
    webhook_id = models.CharField(max_length=64, unique=True)
    body = models.TextField(null=True)
    tries = models.IntegerField(db_default=0)
    planned_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
    answered_at = models.DateTimeField(null=True)
    log = models.JSONField(default=list, db_default=[])
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "alert_delivery"
        constraints = [only_values_of("state", AlertDeliveryState)]
        indexes = [models.Index("due_at", name="alert_delivery_due", condition=Q(state=AlertDeliveryState.WAITING))]


class Alert(models.Model):
    """One occurrence, once a rule. `subject` and `mark` as in alerts/domain/conditions.py; open until `resolved_at`.

    `delivery`: with which it is sent that it began; `resolution`: that it is over, None where that is not sent.
    """

    id = models.BigAutoField(primary_key=True)
    rule = models.ForeignKey(AlertRule, models.CASCADE, db_index=False)
    delivery = models.ForeignKey(AlertDelivery, models.CASCADE)
    resolution = models.ForeignKey(AlertDelivery, models.CASCADE, related_name="+", null=True)
    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=64)
    mark = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    path = models.TextField()
    facts = models.JSONField(default=dict)
    opened_at = models.DateTimeField(db_default=Now())
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "alert"
        constraints = [
            models.UniqueConstraint(fields=["rule", "kind", "subject", "mark"], name="alert_once"),
            models.UniqueConstraint(
                fields=["rule", "kind", "subject"], name="alert_open_once", condition=Q(resolved_at__isnull=True)
            ),
            only_values_of("kind", AlertKind),
        ]
