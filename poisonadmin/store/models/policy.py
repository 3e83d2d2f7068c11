"""Policies as written by administrators; domain/resolution.py merges them."""

from django.db import models
from django.db.models.functions import Now


class PolicyRow(models.Model):
    """`settings` names only what this policy sets; times in milliseconds. Source: R9."""

    id = models.BigAutoField(primary_key=True)
    match = models.CharField(max_length=255, unique=True)
    preset = models.CharField(max_length=32, null=True)
    settings = models.JSONField(default=dict)
    destination = models.ForeignKey("store.Destination", models.PROTECT, null=True)
    version = models.IntegerField(db_default=1)
    updated_by = models.CharField(max_length=255)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "policy"
