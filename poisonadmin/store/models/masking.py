"""Masking rules."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class MaskingRule(models.Model):
    """A part of messages at the addresses of a pattern that roles but `allowed_roles` may not read.

    Of `json_path`, `header`, `key` and `regex` one is set at most; without any it is the whole message.
    """

    id = models.BigAutoField(primary_key=True)
    match = models.CharField(max_length=255)
    json_path = models.CharField(max_length=255, null=True)
    header = models.CharField(max_length=255, null=True)
    key = models.CharField(max_length=100, null=True)
    regex = models.CharField(max_length=255, null=True)
    allowed_roles = ArrayField(models.CharField(max_length=16), default=list)
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "masking_rule"
        verbose_name = "masking rule"
