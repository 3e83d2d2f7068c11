"""The reason `dead_letter_loop`."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

_REASONS = [
    *("attempts_exhausted", "blacklisted", "conversation_ended", "dead_letter_loop", "discarded_by_policy", "expired"),
    *("failed_by_admin", "from_archive", "handed_back", "imported", "listed", "oversized", "quarantined", "rejected"),
    *("returned", "rule"),
]


class Migration(migrations.Migration):
    dependencies = [("store", "0001_schema")]
    operations = [
        migrations.RemoveConstraint(model_name="message", name="message_reason_known"),
        # Every stored message has one of the former reasons: nothing is read while the table is locked.
        AddConstraintNotValid(
            model_name="message",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason__in", _REASONS), ("reason__isnull", True), _connector="OR"),
                name="message_reason_known",
            ),
        ),
    ]
