"""Conversations whose failures are counted together (SEMANTICS SSB-9, R6)."""

from django.db import models
from django.db.models.functions import Now


class Conversation(models.Model):
    """How often the messages of one conversation on one address have failed since the last that was delivered."""

    pk = models.CompositePrimaryKey("address_id", "conversation_id")
    address_id = models.BigIntegerField()
    conversation_id = models.CharField(max_length=255)
    failures = models.IntegerField(db_default=0)
    last_message_id = models.BigIntegerField(null=True)
    failed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "conversation"
