"""Routes of the API."""

from poisonadmin.messages.api import decisions, failures, messages
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
    route("messages/<id:message_id>/approve/", decisions.MessageApprove, name="api-message-approve"),
    route("messages/<id:message_id>/fail/", decisions.MessageFail, name="api-message-fail"),
    route("messages/<id:message_id>/quarantine/", decisions.MessageQuarantine, name="api-message-quarantine"),
    route("messages/<id:message_id>/restore/", decisions.MessageRestore, name="api-message-restore"),
    route("messages/<id:message_id>/deliver_now/", decisions.MessageDeliverNow, name="api-message-deliver-now"),
    route("messages/<id:message_id>/postpone/", decisions.MessagePostpone, name="api-message-postpone"),
    route("messages/<id:message_id>/return/", decisions.MessageReturn, name="api-message-return"),
    route("messages/<id:message_id>/confirm/", decisions.MessageConfirm, name="api-message-confirm"),
    route("failures/", failures.FailureList, name="api-failures"),
    route("groups/", failures.GroupList, name="api-groups"),
    route("groups/<id:group_id>/", failures.GroupOne, name="api-group"),
    route("stats/", failures.MessageCounts, name="api-stats"),
]
