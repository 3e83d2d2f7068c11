"""Policies, rules before and after a delivery, and the business keys that policies name."""

from django.db import models
from django.db.models.functions import Now

from poisonadmin.rules.domain.rules import Stage
from poisonadmin.store.models.constraints import only_values_of


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


class Rule(models.Model):
    """One row of the table of rules: the first enabled one that matches decides.

    `match` and `action` are as domain/rules.py says. `position` orders the rules of a stage. `checked_version`: the
    version that a dry run has looked at; a rule before delivery is switched on only then. `hits` counts what it has
    decided since it was last changed. `fault`: why it was switched off by itself; None once a person has changed it or
    switched it on again.
    """

    id = models.BigAutoField(primary_key=True)
    stage = models.CharField(max_length=8)
    position = models.IntegerField()
    name = models.CharField(max_length=100, unique=True)
    owner = models.CharField(max_length=255)
    note = models.TextField(default="")
    match = models.JSONField(default=dict)
    action = models.JSONField(default=dict)
    is_enabled = models.BooleanField(db_default=False)
    ends_at = models.DateTimeField(null=True)
    hits = models.BigIntegerField(db_default=0)
    last_hit_at = models.DateTimeField(null=True)
    version = models.IntegerField(db_default=1)
    checked_version = models.IntegerField(null=True)
    fault = models.TextField(null=True)
    updated_by = models.CharField(max_length=255)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "rule"
        constraints = [only_values_of("stage", Stage)]
        indexes = [models.Index(fields=["stage", "position"], name="rule_order")]


class BusinessKey(models.Model):
    """A key of a message that a policy's `business_keys` name, extracted at intake. `value` at most 255 characters.

    The index begins with the value, so that one can be looked for whatever its key is called, also by its beginning.
    """

    pk = models.CompositePrimaryKey("message_id", "name")
    message_id = models.BigIntegerField()
    name = models.CharField(max_length=100)
    value = models.CharField(max_length=255)

    class Meta:
        db_table = "business_key"
        indexes = [
            models.Index(
                fields=["value", "name", "message_id"],
                opclasses=["varchar_pattern_ops", "varchar_ops", "int8_ops"],
                name="business_key_look_up",
            )
        ]
