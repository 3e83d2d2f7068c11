"""Routes of the pages."""

from django.urls import path

from poisonadmin.desk.pages import completion, crashed, decisions, detail, edit, facets, groups, moved, triage

urlpatterns = [
    path("triage/", triage.show, name="triage"),
    path("triage/candidates/", crashed.candidates, name="triage-candidates"),
    path("triage/completions/", completion.show, name="triage-completions"),
    path("triage/facets/", facets.show, name="triage-facets"),
    path("triage/newer/", triage.newer, name="triage-newer"),
    path("triage/messages.csv", triage.as_csv, name="triage-csv"),
    path("messages/decide/<slug:action>/", decisions.ask, name="messages-ask"),
    path("messages/decide/<slug:action>/now/", decisions.carry_out, name="messages-decide"),
    path("messages/<int:message_id>/", detail.show, name="messages-one"),
    path("messages/<int:message_id>/bystanders/<int:attempt>/", crashed.bystanders, name="messages-bystanders"),
    path("messages/<int:message_id>/edit/", edit.edit, name="messages-edit"),
    path("messages/<int:message_id>/versions/<int:number>/", edit.version, name="messages-version"),
    path("messages/<int:message_id>/versions/<int:number>/payload/", edit.download, name="messages-version-payload"),
    path("messages/<int:message_id>/payload/", detail.download, name="messages-payload"),
    *groups.urlpatterns,
    *moved.urlpatterns,
]
