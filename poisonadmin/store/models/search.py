"""Lists that people keep under a name, and hits of deep searches, which read payloads and the archive."""

from django.db import models
from django.db.models.functions import Now


class SavedView(models.Model):
    """A list's filter and how it is shown. `query`: parameters of the page Triage, as its URL has them.

    Only its `owner`, the name of an account, sees it, unless it `is_shared`.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=60)
    owner = models.CharField(max_length=255)
    is_shared = models.BooleanField(db_default=False)
    query = models.TextField()
    version = models.IntegerField(db_default=1)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "saved_view"
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_view_name")]
        indexes = [models.Index("name", name="saved_view_shared", condition=models.Q(is_shared=True))]


class SearchHit(models.Model):
    """A message that a search has found. `search_id`: the search's id in paths. `archived`: what is shown of one in the
    archive; null: it is live."""

    pk = models.CompositePrimaryKey("search_id", "message_id")
    search_id = models.BigIntegerField()
    message_id = models.BigIntegerField()
    archived = models.JSONField(null=True)

    class Meta:
        db_table = "search_hit"
