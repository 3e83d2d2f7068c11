"""Routes of the pages."""

from django.urls import path

from poisonadmin.system.pages import activity, overview, palette

urlpatterns = [
    path("", overview.show, name="overview"),
    path("outcomes.json", overview.outcomes_over_time, name="overview-outcomes"),
    path("palette/", palette.show, name="palette"),
    path("nodes/", activity.nodes, name="nodes"),
    path("nodes/<int:node_id>/", activity.node, name="nodes-one"),
    path("audit/", activity.audit, name="audit"),
]
