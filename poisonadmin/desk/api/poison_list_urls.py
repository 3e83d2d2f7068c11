"""Routes of the API."""

from poisonadmin.desk.api import poison_entries as entries
from poisonadmin.desk.api import poison_events as events
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("nodes/<path:name>/heartbeat/", entries.ConsumerHeartbeat, name="api-heartbeat"),
    route("poison-list/", entries.PoisonList, name="api-poison-list"),
    route("poison-list/events/", events.PoisonEvents, name="api-poison-events"),
    route("poison-list/<id:entry_id>/release/", entries.PoisonEntryRelease, name="api-poison-release"),
]
