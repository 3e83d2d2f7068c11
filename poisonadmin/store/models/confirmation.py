"""What became of a message that a broker has taken: did the consumer behind it say so?"""

from django.db import models
from django.db.models import Q


class Confirmation(models.Model):
    """One row a message that was delivered to a broker: its last delivery there, and the consumer's confirmation.

    `confirm_by`: when an answer is overdue; NULL where none is awaited.
    """

    message_id = models.BigIntegerField(primary_key=True)
    attempt_number = models.IntegerField()
    destination_id = models.BigIntegerField()
    delivered_at = models.DateTimeField()
    confirm_by = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)
    confirmed_by = models.CharField(max_length=255, null=True)
    note = models.TextField(null=True)

    class Meta:
        db_table = "confirmation"
        indexes = [
            models.Index(
                "confirm_by",
                "message_id",
                name="confirmation_awaited",
                condition=Q(confirmed_at__isnull=True, confirm_by__isnull=False),
            )
        ]
