"""Routes of the API."""

from poisonadmin.system.api import activity
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("nodes/", activity.NodeList, name="api-nodes"),
    route("audit/", activity.AuditList, name="api-audit"),
]
