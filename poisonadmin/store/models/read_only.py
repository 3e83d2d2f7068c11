"""The read-only mode of the installation."""

from django.db import models
from django.db.models.functions import Now


class ReadOnlyMode(models.Model):
    """The one row is there while nothing may be changed."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    reason = models.TextField()
    switched_on_by = models.CharField(max_length=255)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "read_only_mode"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="read_only_mode_once")]
