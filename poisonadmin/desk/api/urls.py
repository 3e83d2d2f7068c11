"""Routes of the API."""

from poisonadmin.desk.api import decisions, failures, groups, messages
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("messages/", messages.MessageList, name="api-messages"),
    route("messages/<id:message_id>/", messages.MessageOne, name="api-message"),
    route("messages/<id:message_id>/attempts/", messages.MessageAttempts, name="api-message-attempts"),
    route("messages/<id:message_id>/history/", messages.MessageHistory, name="api-message-history"),
    route("messages/<id:message_id>/hops/", messages.MessageHops, name="api-message-hops"),
    route("messages/<id:message_id>/payload/", messages.MessagePayload, name="api-message-payload"),
    route("messages/<id:message_id>/schedule/", messages.MessageSchedule, name="api-message-schedule"),
    route("messages/<id:message_id>/transport/", messages.MessageTransport, name="api-message-transport"),
    route("messages/<id:message_id>/versions/", messages.MessageVersions, name="api-message-versions"),
    route(
        "messages/<id:message_id>/versions/<id:number>/payload/",
        messages.MessageVersionPayload,
        name="api-message-version-payload",
    ),
    *decisions.urlpatterns,
    route("failures/", failures.FailureList, name="api-failures"),
    *groups.urlpatterns,
    route("stats/", failures.MessageCounts, name="api-stats"),
]
