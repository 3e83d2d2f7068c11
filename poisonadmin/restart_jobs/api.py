"""Restart jobs."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NEW
from poisonadmin.restart_jobs import commands as operations
from poisonadmin.restart_jobs import queries
from poisonadmin.restart_jobs.queries import RestartJobRow
from poisonadmin.web.api.contract import FilterField, StrictSerializer, Text, contract
from poisonadmin.web.api.routes import route
from poisonadmin.web.api.shape import Shape, whole_list
from poisonadmin.web.api.view import ApiView, shown

RESTART_JOB = Shape("RestartJob", RestartJobRow)


class RestartJobFields(StrictSerializer):
    """`schedule`: five cron fields, in UTC. `filter`: parameters of `GET /messages/`; `state` is always NDLV."""

    schedule = Text(max_length=operations.MAX_SCHEDULE_CHARS)
    filter = FilterField(required=False, default=dict)
    include_blacklisted = serializers.BooleanField(required=False, default=False)
    max_restarts = serializers.IntegerField(min_value=1, max_value=operations.MAX_RESTARTS, required=False, default=1)
    is_enabled = serializers.BooleanField(required=False, default=True)


class RestartJobInput(RestartJobFields):
    """A restart job with its name."""

    name = Text(max_length=operations.MAX_NAME_CHARS)


class RestartJobList(ApiView):
    """`/restart-jobs/`."""

    @contract(Permission.READ, "restart jobs", {200: whole_list(RESTART_JOB)})
    def get(self) -> Response:
        """List the restart jobs by name."""
        return self.whole(RESTART_JOB, queries.list_restart_jobs(principal=self.principal))

    @contract(Permission.CONFIGURE, "restart jobs", {201: RESTART_JOB}, body=RestartJobInput, acts=True)
    def post(self) -> Response:
        """Create a job that approves messages in NDLV by schedule; 409 when the name is taken."""
        operations.require_every_address(self.principal)
        row = _saved(self.principal, self.body, expected_version=NEW)
        return self.created(RESTART_JOB, row, row.id)


class RestartJobOne(ApiView):
    """`/restart-jobs/{id}/`."""

    @contract(Permission.READ, "restart jobs", {200: RESTART_JOB})
    def get(self, restart_job_id: int) -> Response:
        """Show a restart job: its schedule, and the result of its latest run."""
        return shown(RESTART_JOB, queries.get_restart_job(restart_job_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "restart jobs", {200: RESTART_JOB}, body=RestartJobFields, decides=True)
    def put(self, restart_job_id: int) -> Response:
        """Replace all of a restart job but its name. A run that is under way ends."""
        fields = {"name": queries.get_restart_job(restart_job_id, principal=self.reader).name, **self.body}
        return shown(RESTART_JOB, _saved(self.principal, fields, expected_version=self.expected_version))

    @contract(Permission.CONFIGURE, "restart jobs", {204: None})
    def delete(self, restart_job_id: int) -> Response:
        """Remove a restart job, with its counts of restarts."""
        queries.get_restart_job(restart_job_id, principal=self.reader)
        operations.delete_restart_job(restart_job_id, principal=self.principal)
        return Response(status=204)


class RestartJobRun(ApiView):
    """`/restart-jobs/{id}/run/`."""

    @contract(Permission.CONFIGURE, "restart jobs", {202: RESTART_JOB}, acts=True)
    def post(self, restart_job_id: int) -> Response:
        """Run a restart job within seconds, whatever its schedule, also when it is switched off."""
        queries.get_restart_job(restart_job_id, principal=self.reader)
        operations.run_soon(restart_job_id, principal=self.principal)
        return shown(RESTART_JOB, queries.get_restart_job(restart_job_id, principal=self.reader), 202)


def _saved(principal: Principal, fields: Mapping[str, Any], **more: Any) -> RestartJobRow:
    row = operations.save_restart_job(**fields, principal=principal, **more)
    return queries.get_restart_job(row.id, principal=principal)


urlpatterns = [
    route("restart-jobs/", RestartJobList, name="api-restart-jobs"),
    route("restart-jobs/<id:restart_job_id>/", RestartJobOne, name="api-restart-job"),
    route("restart-jobs/<id:restart_job_id>/run/", RestartJobRun, name="api-restart-job-run"),
]
