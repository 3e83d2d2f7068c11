"""The totals that monitoring reads: counts of what happened, which only grow."""

from django.db import models


class MetricTotal(models.Model):
    """One series of a counter of `/metrics`, with the values of its labels (system/domain/metrics.py)."""

    pk = models.CompositePrimaryKey("metric", "labels")
    metric = models.CharField(max_length=40)
    labels = models.JSONField()
    total = models.FloatField()

    class Meta:
        db_table = "metric_total"
