"""Addresses and the lanes that the claim walks instead of messages."""

from enum import StrEnum

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.store.models.choices import only_values_of


class AddressStatus(StrEnum):
    """ON delivers; PAUSED by a person; STOPPED by a message (a policy's breaker)."""

    ON = "ON"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Address(models.Model):
    """A named lane of messages, `orders.eu.created`, with its status and where it delivers (None.

    A parking address).
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=255, unique=True)
    destination = models.ForeignKey("store.Destination", models.PROTECT, null=True)
    status = models.CharField(max_length=8, db_default=AddressStatus.ON.value)
    status_by = models.CharField(max_length=255, null=True)
    status_note = models.TextField(null=True)
    status_message_id = models.BigIntegerField(null=True)
    status_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "address"
        constraints = [only_values_of("status", AddressStatus)]


class Lane(models.Model):
    """The claim's view of an address: is it open, and when is its first message due.

    One a address (conversation_id NULL), and one a conversation on ordered addresses.
    `next_due` is a floor: no TBDL message of the lane is due earlier. NULL: none waits.
    `is_open`: the address is ON, has a destination, and the destination is enabled.
    """

    id = models.BigAutoField(primary_key=True)
    address = models.ForeignKey(Address, models.CASCADE)
    conversation_id = models.CharField(max_length=255, null=True)
    is_open = models.BooleanField(db_default=False)
    next_due = models.DateTimeField(null=True)

    class Meta:
        db_table = "lane"
        constraints = [
            models.UniqueConstraint(fields=["address", "conversation_id"], name="lane_once", nulls_distinct=False)
        ]
        indexes = [models.Index("next_due", name="lane_ready", condition=Q(is_open=True))]
