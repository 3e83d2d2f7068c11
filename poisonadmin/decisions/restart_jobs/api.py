"""Restart jobs, their previews and their runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NEW
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.decisions.operations.queries.preview import OperationPreview, preview
from poisonadmin.decisions.restart_jobs import commands
from poisonadmin.decisions.restart_jobs.domain import RESTART_ACTIONS, RestartJobSettings, RunOutcome
from poisonadmin.decisions.restart_jobs.queries import (
    RestartJobRow,
    RestartRunRow,
    get_restart_job,
    get_run,
    list_restart_jobs,
    list_runs,
)
from poisonadmin.search.domain.selection import SelectionOrder
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.web.api.contract import PAGE, Identifier, Paged, SettingsInput, StrictSerializer, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown


@dataclass(frozen=True)
class RestartPreview(OperationPreview):
    """The preview of a run of a restart job. `selection_id`: a run that is given it decides on these messages."""

    selection_id: int
    action: str


RESTART_JOB = Shape(
    "RestartJob",
    RestartJobRow,
    leave_out=("person",),
    kinds={"action": tuple(RESTART_ACTIONS), "order": SelectionOrder, "last_outcome": RunOutcome | None},
)
RESTART_RUN = Shape("RestartRun", RestartRunRow, kinds={"outcome": RunOutcome, "state": OperationState | None})
RESTART_PREVIEW = Shape("RestartPreview", RestartPreview, kinds={"action": tuple(RESTART_ACTIONS)})


class RestartJobFields(SettingsInput):
    """`schedule`: five cron fields, in UTC; null: the job runs on request only.

    `filter`: parameters of `GET /messages/`; `state` is always NDLV. `reason`: that of every run's operation.
    `limit`: how many messages a run takes at most, the first in `order`. `canary`: each operation tries 1 message, then
    10, then 100 before all others, and halts when they fail again.
    """

    settings = settings_of(RestartJobSettings, but=("name",))


class RestartJobInput(SettingsInput):
    """A restart job with its name."""

    settings = settings_of(RestartJobSettings)


class RestartRunInput(StrictSerializer):
    """`selection`: that of a preview; the run then decides on the messages that the preview has counted."""

    selection = Identifier(required=False, allow_null=True, default=None)


class RestartJobList(ApiView):
    """`/restart-jobs/`."""

    @contract(Permission.READ, "restart jobs", {200: Paged(RESTART_JOB)})
    def get(self) -> Response:
        """List the restart jobs by name."""
        return self.whole(RESTART_JOB, list_restart_jobs(principal=self.principal))

    @contract(Permission.CONFIGURE, "restart jobs", {201: RESTART_JOB}, body=RestartJobInput, acts=True)
    def post(self) -> Response:
        """Create a job whose runs are operations on messages in NDLV; 409 when the name is taken."""
        commands.require_every_address(self.principal)
        row = _saved(self.principal, self.body, expected_version=NEW)
        return self.created(RESTART_JOB, row, row.id)


class RestartJobOne(ApiView):
    """`/restart-jobs/{id}/`."""

    @contract(Permission.READ, "restart jobs", {200: RESTART_JOB})
    def get(self, restart_job_id: int) -> Response:
        """Show a restart job: its schedule, and the result of its latest run."""
        return shown(RESTART_JOB, get_restart_job(restart_job_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "restart jobs", {200: RESTART_JOB}, body=RestartJobFields, decides=True)
    def put(self, restart_job_id: int) -> Response:
        """Replace all of a restart job but its name. Operations that it has begun go on."""
        fields = {"name": get_restart_job(restart_job_id, principal=self.reader).name, **self.body}
        return shown(RESTART_JOB, _saved(self.principal, fields, expected_version=self.expected_version))

    @contract(Permission.CONFIGURE, "restart jobs", {204: None})
    def delete(self, restart_job_id: int) -> Response:
        """Remove a restart job, with its list of runs. Operations that it has begun go on."""
        get_restart_job(restart_job_id, principal=self.reader)
        commands.delete_restart_job(restart_job_id, principal=self.principal)
        return Response(status=204)


class RestartJobPreview(ApiView):
    """`/restart-jobs/{id}/preview/`."""

    @contract(Permission.CONFIGURE, "restart jobs", {201: RESTART_PREVIEW}, acts=True)
    def post(self, restart_job_id: int) -> Response:
        """Freeze what a run would decide on now, and show what would become of it, by the checks of the run."""
        job = get_restart_job(restart_job_id, principal=self.reader)
        selection_id = commands.freeze_for_preview(restart_job_id, principal=self.principal)
        selection = get_selection(selection_id, principal=self.reader)
        found = preview(selection, OperationAction(job.action), principal=self.reader)
        row = RestartPreview(**vars(found), selection_id=selection_id, action=job.action)
        return Response(RESTART_PREVIEW.render(row), status=201)


class RestartJobRun(ApiView):
    """`/restart-jobs/{id}/run/`."""

    @contract(Permission.CONFIGURE, "restart jobs", {202: RESTART_RUN}, body=RestartRunInput, acts=True)
    def post(self, restart_job_id: int) -> Response:
        """Run a restart job now, whatever its schedule, also when it is switched off.

        The answer has the run's `outcome`: `begun` with its operation, else why there is none.
        """
        get_restart_job(restart_job_id, principal=self.reader)
        selection_id = self.body["selection"]
        run = commands.run_once(restart_job_id, principal=self.principal, selection_id=selection_id)
        return Response(RESTART_RUN.render(get_run(run.id, principal=self.reader)), status=202)


class RestartJobRuns(ApiView):
    """`/restart-jobs/{id}/runs/`."""

    @contract(Permission.READ, "restart jobs", {200: Paged(RESTART_RUN)}, query=PAGE)
    def get(self, restart_job_id: int) -> Response:
        """List the runs of a restart job, newest first, with the ledgers of their operations."""
        job = get_restart_job(restart_job_id, principal=self.principal)
        return self.listed(RESTART_RUN, list_runs, job.id)


def _saved(principal: Principal, fields: Mapping[str, Any], **more: Any) -> RestartJobRow:
    row = commands.save_restart_job(**fields, principal=principal, **more)
    return get_restart_job(row.id, principal=principal)


urlpatterns = [
    route("restart-jobs/", RestartJobList, name="api-restart-jobs"),
    route("restart-jobs/<id:restart_job_id>/", RestartJobOne, name="api-restart-job"),
    route("restart-jobs/<id:restart_job_id>/preview/", RestartJobPreview, name="api-restart-job-preview"),
    route("restart-jobs/<id:restart_job_id>/run/", RestartJobRun, name="api-restart-job-run"),
    route("restart-jobs/<id:restart_job_id>/runs/", RestartJobRuns, name="api-restart-job-runs"),
]
