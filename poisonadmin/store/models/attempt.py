"""The failure log: how each delivery try ended."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.messages.domain.outcomes import CRASHES, Outcome
from poisonadmin.store.models.constraints import only_values_of


class Attempt(models.Model):
    """One delivery try, written once by the task that made it, and at the same time the outcome that `settle` reads.

    A message in DLNG with attempt number N and a row (message, N) here is answered but not settled; nothing marks a row
    as settled, so settling twice changes nothing (decision 3). Rows of a fenced node match no message and
    only inform.
    Only `returned` is written over a row: a delivery to a broker has two ends, and the second says more.
    The columns are those of `AttemptRecord` (messages/domain/attempt.py).
    """

    pk = models.CompositePrimaryKey("message_id", "attempt_number")
    message_id = models.BigIntegerField()
    attempt_number = models.IntegerField()
    claim_id = models.BigIntegerField(null=True)
    shard = models.SmallIntegerField(null=True)
    destination_id = models.BigIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    outcome = models.CharField(max_length=20)
    error_class = models.CharField(max_length=255, null=True)
    cause_class = models.CharField(max_length=255, null=True)
    error_message = models.TextField(null=True)
    stack = models.TextField(null=True)
    fingerprint = models.CharField(max_length=16, null=True)
    title = models.CharField(max_length=300, null=True)
    status_code = models.SmallIntegerField(null=True)
    retry_after_ms = models.BigIntegerField(null=True)
    response = models.BinaryField(null=True)
    exit_status = models.SmallIntegerField(null=True)
    output = models.BinaryField(null=True)
    move_to = models.CharField(max_length=255, null=True)
    rule_id = models.BigIntegerField(null=True)
    rule_action = models.CharField(max_length=20, null=True)
    error_code = models.IntegerField(null=True)
    consumer_version = models.CharField(max_length=100, null=True)

    class Meta:
        db_table = "attempt"
        constraints = [only_values_of("outcome", Outcome)]
        indexes = [
            models.Index("finished_at", "message_id", name="attempt_failures", condition=~Q(outcome=Outcome.DELIVERED)),
            models.Index(
                "fingerprint",
                "finished_at",
                "message_id",
                name="attempt_by_group",
                condition=~Q(outcome=Outcome.DELIVERED),
            ),
            models.Index("claim_id", "shard", "message_id", name="attempt_crashes", condition=Q(outcome__in=CRASHES)),
            models.Index(
                "consumer_version",
                "message_id",
                name="attempt_by_version",
                condition=Q(consumer_version__isnull=False),
            ),
            BrinIndex(fields=["finished_at"], name="attempt_by_time", pages_per_range=32),
        ]


class FailureWords(models.Model):
    """The words of failures' messages, for `error:`; one row a text in a statement that writes attempts, by a trigger.

    `words`: `searchable_words` of the text, which has an index. `message_ids`, `attempt_numbers`: the attempts that
    said so, place by place. Whoever finds one asks the attempt again, since `returned` is written over attempts.
    """

    id = models.BigAutoField(primary_key=True)
    words = models.TextField()
    message_ids = ArrayField(models.BigIntegerField())
    attempt_numbers = ArrayField(models.IntegerField())

    class Meta:
        db_table = "failure_words"


class FailureGroup(models.Model):
    """Failures with the same fingerprint. Counts by state come from the counters.

    `merged_into`: the group that people see in place of this one, never itself merged into another. Messages, attempts
    and counters keep the group of their fingerprint (decision 47).
    `resumed_at`: when it last grew after it had been quiet since `quiet_since`. `is_unseen`: it is new, or has resumed,
    and no tick of the alerts has looked at it since. `regressed_at`: when it failed again on `regressed_version`, which
    was to mend it.
    """

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(max_length=16, unique=True)
    version = models.SmallIntegerField()
    title = models.CharField(max_length=300)
    error_class = models.CharField(max_length=255)
    sample_message_id = models.BigIntegerField(null=True)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    failures = models.BigIntegerField(db_default=0)
    merged_into = models.ForeignKey(
        "self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    quiet_since = models.DateTimeField(null=True)
    resumed_at = models.DateTimeField(null=True)
    is_unseen = models.BooleanField(db_default=True)
    regressed_at = models.DateTimeField(null=True)
    regressed_version = models.CharField(max_length=100, null=True)

    class Meta:
        db_table = "failure_group"
        indexes = [
            models.Index(fields=["-last_at"], name="failure_group_recent"),
            models.Index("merged_into", "id", name="failure_group_merged", condition=Q(merged_into__isnull=False)),
            models.Index("fingerprint", name="failure_group_unseen", condition=Q(is_unseen=True)),
        ]
