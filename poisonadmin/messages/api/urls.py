"""Routes of the API."""

from poisonadmin.messages.api import confirmations, decisions, failures, messages, parts
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("messages/", messages.MessageList, name="api-messages"),
    route("messages/<id:message_id>/", messages.MessageOne, name="api-message"),
    route("messages/<id:message_id>/attempts/", parts.MessageAttempts, name="api-message-attempts"),
    route("messages/<id:message_id>/history/", parts.MessageHistory, name="api-message-history"),
    route("messages/<id:message_id>/hops/", parts.MessageHops, name="api-message-hops"),
    route("messages/<id:message_id>/payload/", parts.MessagePayload, name="api-message-payload"),
    route("messages/<id:message_id>/schedule/", parts.MessageSchedule, name="api-message-schedule"),
    route("messages/<id:message_id>/transport/", parts.MessageTransport, name="api-message-transport"),
    *decisions.urlpatterns,
    route("messages/<id:message_id>/confirm/", confirmations.MessageConfirm, name="api-message-confirm"),
    route("failures/", failures.FailureList, name="api-failures"),
    route("groups/", failures.GroupList, name="api-groups"),
    route("groups/<id:group_id>/", failures.GroupOne, name="api-group"),
    route("stats/", failures.MessageCounts, name="api-stats"),
]
