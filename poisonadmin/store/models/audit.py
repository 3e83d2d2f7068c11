"""Who did what, when and why."""

import pgtrigger
from django.db import models
from django.db.models.functions import Now


class Audit(models.Model):
    """One row a deliberate act (decision, configuration, login, export); append-only."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=255)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=255)
    note = models.TextField(null=True)
    details = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, null=True)

    class Meta:
        db_table = "audit"
        indexes = [models.Index("object_type", "object_id", name="audit_by_object")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]
