"""Claims, their shards, and the nodes that deliver them."""

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.store.models.constraints import only_values_of


class NodeEnd(StrEnum):
    """CLEAN.

    All its outcomes are written. LOST: it died or its lease ran out. FENCED: `recover` took the shard before it began.
    """

    CLEAN = "clean"
    LOST = "lost"
    FENCED = "fenced"


class Claim(models.Model):
    """A set of messages taken for delivery together. `lease_until` holds for the shards that no node has taken yet.

    `settled`: how many of its `size` messages have left DLNG by their outcomes.
    `plan`: {destination id: {"shards": [shard, …], "slots": deliveries at once in each of them}}.
    `is_isolation`: it holds candidates, delivered one after the other, each in a sandbox of its own.
    `is_stopping`: its nodes begin nothing more; what they have begun gets a few seconds to end.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey("store.LongRun", models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    claimed_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField()
    shards = models.SmallIntegerField()
    size = models.IntegerField()
    settled = models.IntegerField(db_default=0)
    plan = models.JSONField(default=dict)
    is_open = models.BooleanField(db_default=True)
    is_stopping = models.BooleanField(db_default=False)
    is_isolation = models.BooleanField(db_default=False)

    class Meta:
        db_table = "claim"
        indexes = [models.Index("id", name="claim_open", condition=Q(is_open=True))]


class ClaimShard(models.Model):
    """Which messages a claim took into a shard, in the order in which they are to begin.

    Those still DLNG under this claim are under way. `sizes`: {destination id: messages}.
    """

    pk = models.CompositePrimaryKey("claim_id", "shard")
    claim_id = models.BigIntegerField()
    shard = models.SmallIntegerField()
    message_ids = ArrayField(models.BigIntegerField())
    sizes = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))

    class Meta:
        db_table = "claim_shard"


class OutcomeBatch(models.Model):
    """Messages of a claim whose attempts were written by one statement, and that nobody has settled yet.

    A trigger of `attempt` writes it, so that nothing is written and then forgotten. `delivered`: beside each message
    the number of the attempt that delivered it, None where its outcome is another.
    """

    id = models.BigAutoField(primary_key=True)
    claim_id = models.BigIntegerField()
    message_ids = ArrayField(models.BigIntegerField())
    delivered = ArrayField(models.IntegerField(null=True))

    class Meta:
        db_table = "outcome_batch"
        indexes = [models.Index("claim_id", "id", name="outcome_batch_of_claim")]


class Node(models.Model):
    """A process that delivers one shard of a claim. The unique (claim, shard) is the fence: whoever inserts the row
    delivers.

    While it lives its session holds the advisory lock (20, id) and renews `heartbeat_at` and `lease_until`.
    `journals`: the directory with the journals of its sandboxes, on its host; None when it has run no handler.
    `start_mark`: the candidate that it has begun, written before the candidate's sandbox sees it.
    `unanswered`: messages that it had begun when it was stopped, and whose outcome nobody knows.
    `released`: messages that it will not begin, to go back while it still delivers others. `waits`: it begins nothing
    more, and only waits for answers.
    `under_way`: {destination id: messages that it may still begin, or that are not answered}; None: it has not said so
    yet. `settled_at`: when what it left was given back. `tallies`: what its shard came to, written with its end, one
    object a destination (poisonadmin/delivery/domain/window.py).
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100)
    host = models.CharField(max_length=100)
    pid = models.IntegerField()
    claim_id = models.BigIntegerField()
    shard = models.SmallIntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    end = models.CharField(max_length=8, null=True)
    journals = models.TextField(null=True)
    start_mark = models.BigIntegerField(null=True)
    begun = models.IntegerField(db_default=0)
    unanswered = ArrayField(models.BigIntegerField(), default=list, db_default=models.Value("{}"))
    released = ArrayField(models.BigIntegerField(), null=True)
    waits = models.BooleanField(db_default=False)
    under_way = models.JSONField(null=True)
    settled_at = models.DateTimeField(null=True)
    tallies = models.JSONField(null=True)

    class Meta:
        db_table = "node"
        constraints = [
            models.UniqueConstraint(fields=["claim_id", "shard"], name="node_once_per_shard"),
            only_values_of("end", NodeEnd, nullable=True),
        ]
        indexes = [
            models.Index("id", name="node_alive", condition=Q(ended_at__isnull=True)),
            models.Index("claim_id", name="node_releasing", condition=Q(released__isnull=False, ended_at__isnull=True)),
            models.Index("id", name="node_lost", condition=Q(end=NodeEnd.LOST)),
            models.Index(
                "claim_id", name="node_unsettled", condition=Q(ended_at__isnull=False, settled_at__isnull=True)
            ),
        ]
