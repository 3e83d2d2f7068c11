"""Routes of the pages."""

from django.urls import path

from poisonadmin.messages.pages import blacklist, decisions, detail, edit, failures, lists

urlpatterns = [
    path("blacklist/", blacklist.show, name="blacklist"),
    path("blacklist/newer/", blacklist.newer, name="blacklist-newer"),
    path("blacklist/<int:message_id>/bystanders/<int:attempt>/", blacklist.bystanders, name="blacklist-bystanders"),
    path("messages/", lists.show, name="messages"),
    path("messages/newer/", lists.newer, name="messages-newer"),
    path("messages/messages.csv", lists.as_csv, name="messages-csv"),
    path("messages/decide/<slug:action>/", decisions.ask, name="messages-ask"),
    path("messages/decide/<slug:action>/now/", decisions.carry_out, name="messages-decide"),
    path("messages/<int:message_id>/", detail.show, name="messages-one"),
    path("messages/<int:message_id>/edit/", edit.edit, name="messages-edit"),
    path("messages/<int:message_id>/versions/<int:number>/", edit.version, name="messages-version"),
    path("messages/<int:message_id>/versions/<int:number>/payload/", edit.download, name="messages-version-payload"),
    path("messages/<int:message_id>/payload/", detail.download, name="messages-payload"),
    path("groups/", failures.groups, name="groups"),
    path("groups/<int:group_id>/", failures.group, name="groups-one"),
    path("failures/", failures.show, name="failures"),
]
