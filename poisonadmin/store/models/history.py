"""The append-only state history, and the exact counters that are written with it."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Func, Q, Value
from django.db.models.functions import Now

from poisonadmin.messages.domain.states import Event, State
from poisonadmin.store.models.constraints import KEPT_WITH_MESSAGE, only_values_of


class History(models.Model):
    """One row a state change, written in the transaction of the change. `seq` grows along a message's life.

    `operation_id`: the operation that made it. `reset_failures`, `reset_crashes`: the counts that it set to 0; crashes
    where it cleared a candidate. `reset_origin`: the original address that the message had.
    """

    pk = models.CompositePrimaryKey("message_id", "seq")
    message_id = models.BigIntegerField()
    seq = models.BigIntegerField(db_default=Func(Value("history_seq"), function="nextval"))
    from_state = models.CharField(max_length=4, null=True)
    to_state = models.CharField(max_length=4)
    event = models.CharField(max_length=24)
    reason = models.CharField(max_length=32, null=True)
    attempt_number = models.IntegerField()
    actor = models.CharField(max_length=255)
    note = models.TextField(null=True)
    operation_id = models.BigIntegerField(null=True)
    reset_failures = models.IntegerField(null=True)
    reset_crashes = models.SmallIntegerField(null=True)
    reset_origin = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "history"
        constraints = [
            only_values_of("from_state", State, nullable=True),
            only_values_of("to_state", State),
            only_values_of("event", Event),
        ]
        indexes = [
            # Rows arrive in the order of time: a few kilobytes of block ranges serve the chart of the last hours.
            BrinIndex("at", name="history_in_time", pages_per_range=32, autosummarize=True),
        ]
        triggers = KEPT_WITH_MESSAGE


class CounterDelta(models.Model):
    id = models.BigAutoField(primary_key=True)
    address_id = models.BigIntegerField()
    state = models.CharField(max_length=4)
    reason = models.CharField(max_length=32, null=True)
    group_id = models.BigIntegerField(null=True)
    original_address_id = models.BigIntegerField(null=True)
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
    original_address_id = models.BigIntegerField(null=True)
    total = models.BigIntegerField()

    class Meta:
        db_table = "counter"
        constraints = [
            models.UniqueConstraint(
                fields=["address_id", "state", "reason", "group_id", "original_address_id"],
                name="counter_once",
                nulls_distinct=False,
            )
        ]
        indexes = [models.Index("group_id", "state", name="counter_by_group", condition=Q(group_id__isnull=False))]


class CounterCheck(models.Model):
    """When the counters of an address were last compared with its messages, how long that took, and by how many
    messages they were wrong, too high or too low.
    """

    address_id = models.BigIntegerField(primary_key=True)
    checked_at = models.DateTimeField(db_default=Now())
    seconds = models.FloatField()
    wrong = models.BigIntegerField()

    class Meta:
        db_table = "counter_check"
