"""The processes that work: a busy solo worker cannot answer a ping, so its health is a row."""

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """One row a worker process name; `heartbeat_at` moves every second while it lives, however busy it is."""

    name = models.CharField(max_length=100, primary_key=True)
    host = models.CharField(max_length=100)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "worker"
