"""Exact counts by address, state, reason and group.

Deltas appended by the statement that changes states, folded by a tick.
"""

from django.db import models


class CounterDelta(models.Model):
    id = models.BigAutoField(primary_key=True)
    address_id = models.BigIntegerField()
    state = models.CharField(max_length=4)
    reason = models.CharField(max_length=32, null=True)
    group_id = models.BigIntegerField(null=True)
    delta = models.BigIntegerField()

    class Meta:
        db_table = "counter_delta"


class Counter(models.Model):
    """The count now is `total` plus the deltas not folded yet."""

    id = models.BigAutoField(primary_key=True)
    address_id = models.BigIntegerField()
    state = models.CharField(max_length=4)
    reason = models.CharField(max_length=32, null=True)
    group_id = models.BigIntegerField(null=True)
    total = models.BigIntegerField()

    class Meta:
        db_table = "counter"
        constraints = [
            models.UniqueConstraint(
                fields=["address_id", "state", "reason", "group_id"], name="counter_once", nulls_distinct=False
            )
        ]
