"""Routes of the API."""

from poisonadmin.system.api import activity
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("jobs/", activity.JobList, name="api-jobs"),
    route("jobs/<id:job_id>/", activity.JobOne, name="api-job"),
    route("nodes/", activity.NodeList, name="api-nodes"),
    route("audit/", activity.AuditList, name="api-audit"),
]
