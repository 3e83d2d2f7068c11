"""Routes of the pages."""

from django.urls import path

from poisonadmin.system.pages import activity, nodes, overview

urlpatterns = [
    path("", overview.show, name="overview"),
    path("outcomes.json", overview.outcomes_over_time, name="overview-outcomes"),
    path("jobs/", activity.jobs, name="jobs"),
    path("jobs/<int:job_id>/", activity.job, name="jobs-one"),
    path("nodes/", nodes.show_all, name="nodes"),
    path("nodes/<int:node_id>/", nodes.show, name="nodes-one"),
    path("audit/", activity.audit, name="audit"),
]
