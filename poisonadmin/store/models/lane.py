"""Addresses, the lanes that the claim walks instead of messages, and the failures of conversations."""

from enum import StrEnum

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.policies.domain.policy import Blame, Policy
from poisonadmin.store.models.constraints import only_values_of

DEFAULT_MAX_PAYLOAD_BYTES = Policy().max_payload_bytes


class AddressStatus(StrEnum):
    """ON delivers; PAUSED by a person; STOPPED by a message (a policy's breaker)."""

    ON = "ON"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Address(models.Model):
    """A named lane of messages, `orders.eu.created`, with its status and where it delivers (None: a parking address).

    `destination`, `blame`, `max_payload_bytes`, `is_ordered` and `is_watched` are what the policies say, written down
    so that neither the claim nor a task need resolve anything (policies/commands.py). `is_watched`: what is delivered
    there ends a count of failures of its conversation, or a row of roll-backs (`rollbacks_in_row`).
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=255, unique=True)
    destination = models.ForeignKey("store.Destination", models.PROTECT, null=True)
    status = models.CharField(max_length=8, db_default=AddressStatus.ON.value)
    status_by = models.CharField(max_length=255, null=True)
    status_note = models.TextField(null=True)
    status_message_id = models.BigIntegerField(null=True)
    status_at = models.DateTimeField(db_default=Now())
    blame = models.CharField(max_length=16, db_default=Blame.EXACT.value)
    max_payload_bytes = models.BigIntegerField(db_default=DEFAULT_MAX_PAYLOAD_BYTES)
    is_ordered = models.BooleanField(db_default=False)
    is_watched = models.BooleanField(db_default=False)
    rollbacks_in_row = models.IntegerField(db_default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "address"
        constraints = [only_values_of("status", AddressStatus), only_values_of("blame", Blame)]
        indexes = [models.Index("id", name="address_stopped", condition=Q(status=AddressStatus.STOPPED))]


class Lane(models.Model):
    """The claim's view of an address: is it open, and when is its first message due.

    One a address (`is_plain`), one a conversation on ordered addresses, and the isolation lane of an address, made when
    its first message becomes a candidate: what waits there is delivered alone. An operation has lanes of each of these
    kinds to itself: its messages go behind the others, at its rate, and not while it is paused.
    `next_due` is a floor: no TBDL message of the lane is due earlier. NULL: none waits. For a conversation it is when
    its head is due, and NULL while the head is under way or waits for a decision.
    `head_id`: a conversation's first undelivered message, behind which the others are held. `delivered_below`: on this
    address the conversation has no undelivered message with a smaller id; NULL: unknown.
    `is_open`: the address is ON, has a destination, the destination is enabled, and the lane is not `is_held`, as those
    of a paused operation are.
    """

    id = models.BigAutoField(primary_key=True)
    address = models.ForeignKey(Address, models.CASCADE)
    conversation_id = models.CharField(max_length=255, null=True)
    is_open = models.BooleanField(db_default=False)
    next_due = models.DateTimeField(null=True)
    head_id = models.BigIntegerField(null=True)
    delivered_below = models.BigIntegerField(null=True)
    is_isolation = models.BooleanField(db_default=False)
    operation_id = models.BigIntegerField(null=True)
    is_held = models.BooleanField(db_default=False)
    is_plain = models.GeneratedField(
        expression=Q(conversation_id__isnull=True, is_isolation=False, operation_id__isnull=True),  # type: ignore[arg-type]
        output_field=models.BooleanField(),
        db_persist=True,
    )

    class Meta:
        db_table = "lane"
        constraints = [
            models.UniqueConstraint(
                fields=["address", "conversation_id", "is_isolation", "operation_id"],
                name="lane_once",
                nulls_distinct=False,
            ),
            models.UniqueConstraint(fields=["address"], name="lane_plain_once", condition=Q(is_plain=True)),
        ]
        indexes = [models.Index("next_due", name="lane_ready", condition=Q(is_open=True))]


class StaleHeads(models.Model):
    """An ordered address at which messages may be undelivered below `delivered_below`; the next claim takes the row."""

    id = models.BigAutoField(primary_key=True)
    address_id = models.BigIntegerField()

    class Meta:
        db_table = "stale_heads"


class Conversation(models.Model):
    """The failures of one conversation on one address since its last delivered message.

    `ended_at`: it has ended, and what comes later is parked until an administrator approves a message of it; with
    `error_code` and `error` where it ended with an error.
    """

    pk = models.CompositePrimaryKey("address_id", "conversation_id")
    address_id = models.BigIntegerField()
    conversation_id = models.CharField(max_length=255)
    failures = models.IntegerField(db_default=0)
    last_message_id = models.BigIntegerField(null=True)
    failed_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    error_code = models.IntegerField(null=True)
    error = models.TextField(null=True)

    class Meta:
        db_table = "conversation"
        indexes = [
            models.Index(
                "address_id", "conversation_id", name="conversation_ended", condition=Q(ended_at__isnull=False)
            )
        ]
