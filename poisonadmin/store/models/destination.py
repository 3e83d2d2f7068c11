"""Destinations, to which addresses deliver."""

from enum import StrEnum

from django.db import models
from django.db.models.functions import Now

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.addresses import ANY_WORDS, MAX_ADDRESS_CHARS
from poisonadmin.store.models.constraints import only_values_of
from poisonadmin.store.models.secret_fields import SecretsField, WithoutSecrets


class DestinationKind(StrEnum):
    """The kinds beside those of brokers."""

    HTTP = "http"
    HANDLER = "handler"


DESTINATION_KINDS = (*map(str, DestinationKind), *BROKERS)


class Destination(models.Model):
    """`config` is what a viewer may see, `secrets` (header name -> value, or a broker's `username` and `password`) is
    write-only.

    `owner`: the address pattern that it is kept for. It is in scope of whoever sees all of these addresses, and no
    consumer moves a message from it to another address than these.
    `window` is how many messages one claim may take for it: doubled while claims finish in time, shrunk to what was
    begun when they do not, halved when a whole claim failed in transport (domain/window.py). It is no smaller than its
    concurrency and one more, unless it was `slowed_by` silence. `next_slot` is the next free time of its rate.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    owner = models.CharField(max_length=MAX_ADDRESS_CHARS, db_default=ANY_WORDS)
    kind = models.CharField(max_length=16)
    config = models.JSONField(default=dict)
    secrets = SecretsField(default=dict)
    max_rate_per_second = models.FloatField(null=True)
    is_enabled = models.BooleanField(db_default=True)
    window = models.IntegerField(db_default=256)
    slowed_by = models.TextField(null=True)
    next_slot = models.DateTimeField(db_default=Now())
    version = models.IntegerField(db_default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    objects = WithoutSecrets()

    class Meta:
        db_table = "destination"
        constraints = [
            only_values_of("kind", DESTINATION_KINDS),
            models.CheckConstraint(condition=models.Q(window__gte=1), name="destination_window_positive"),
        ]
