"""Hits of deep searches, which read payloads and the archive."""

from django.db import models


class SearchHit(models.Model):
    """A message that a search has found. `search_id`: the search's id in paths. `archived`: what is shown of one in the
    archive; null: it is live."""

    pk = models.CompositePrimaryKey("search_id", "message_id")
    search_id = models.BigIntegerField()
    message_id = models.BigIntegerField()
    archived = models.JSONField(null=True)

    class Meta:
        db_table = "search_hit"
