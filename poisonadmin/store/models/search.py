"""Deep searches, which read payloads and the archive, and what they have found."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.search.deep.domain.states import SearchState
from poisonadmin.store.models.choices import only_values_of


class Search(models.Model):
    """A search in payloads and headers. `filter`: parameters of `GET /messages/`, with terms that no list takes.

    `requester`: `Principal.person` who asked; `patterns`: the address patterns that he was limited to.
    Live messages are read from the newest to the oldest: those above `live_above` have been. Then the archive's files
    in the order of their ids: those up to `file_above` have been. `read` of `total`: ids of live messages, and archived
    rows. `hits`, of which `archived_hits` are archived; `is_capped`: there may be more. `outside_archive`: words of the
    search that the archive cannot be asked about, so that it was left out. `turn_at`: when it was gone on with last.
    """

    id = models.BigAutoField(primary_key=True)
    filter = models.JSONField()
    state = models.CharField(max_length=10, db_default=SearchState.RUNNING.value)
    requester = models.CharField(max_length=255)
    requested_by = models.CharField(max_length=255)
    patterns = models.JSONField(default=list)
    reads_payloads = models.BooleanField()
    live_above = models.BigIntegerField()
    file_above = models.BigIntegerField(db_default=0)
    read = models.BigIntegerField(db_default=0)
    total = models.BigIntegerField(db_default=0)
    hits = models.IntegerField(db_default=0)
    archived_hits = models.IntegerField(db_default=0)
    is_capped = models.BooleanField(db_default=False)
    outside_archive = models.JSONField(default=list)
    selection_id = models.BigIntegerField(null=True)
    job_id = models.BigIntegerField(null=True)
    error = models.TextField(null=True)
    requested_at = models.DateTimeField(db_default=Now())
    turn_at = models.DateTimeField(null=True)
    first_hit_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "search"
        constraints = [only_values_of("state", SearchState)]
        indexes = [
            models.Index("id", name="search_open", condition=Q(state="running")),
            models.Index(fields=["requester", "-id"], name="search_recent"),
        ]


class SearchHit(models.Model):
    """A message that a search has found. `archived`: what is shown of one in the archive; null: it is live."""

    pk = models.CompositePrimaryKey("search_id", "message_id")
    search_id = models.BigIntegerField()
    message_id = models.BigIntegerField()
    archived = models.JSONField(null=True)

    class Meta:
        db_table = "search_hit"
