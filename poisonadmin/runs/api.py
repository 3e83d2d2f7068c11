"""Runs of all kinds, as jobs."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.jobs import JobRow, get_job, list_jobs
from poisonadmin.web.api.contract import PAGE, Paged, choice, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

JOB = Shape("Job", JobRow, kinds={"kind": KindName, "state": RunState})


class JobList(ApiView):
    """`/jobs/`."""

    @contract(
        Permission.READ,
        "activity",
        {200: Paged(JOB)},
        query=(choice("kind", KindName, many=True), choice("state", RunState, many=True), *PAGE),
    )
    def get(self) -> Response:
        """List jobs, newest first."""
        return self.listed(JOB, list_jobs, kinds=self.query["kind"], states=self.query["state"])


class JobOne(ApiView):
    """`/jobs/{id}/`."""

    @contract(Permission.READ, "activity", {200: JOB})
    def get(self, job_id: int) -> Response:
        """Show a job with its phase, progress, result and error."""
        return Response(JOB.render(get_job(job_id, principal=self.principal)))


urlpatterns = [
    route("jobs/", JobList, name="api-jobs"),
    route("jobs/<id:job_id>/", JobOne, name="api-job"),
]
