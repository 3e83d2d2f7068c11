"""What runs, and who did what."""

from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.queries.paging import DEFAULT_LIMIT
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.store.models.job import JobKind, JobState
from poisonadmin.system.queries import audit, jobs, nodes
from poisonadmin.system.queries.audit import AuditRow
from poisonadmin.system.queries.jobs import JobRow
from poisonadmin.system.queries.nodes import NodeRow
from poisonadmin.web.api.contract import Paged, contract
from poisonadmin.web.api.parameters import PAGE, boolean, choice, text, time
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView

JOB = Shape("Job", JobRow, kinds={"kind": JobKind, "state": JobState})
NODE = Shape("Node", NodeRow, kinds={"end": NodeEnd | None})
AUDIT = Shape("AuditEntry", AuditRow)


class JobList(ApiView):
    """`/jobs/`."""

    @contract(
        Permission.READ,
        "activity",
        {200: Paged(JOB)},
        query=(choice("kind", JobKind, many=True), choice("state", JobState, many=True), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List jobs, newest first."""
        found = jobs.list_jobs(
            principal=self.principal,
            kinds=self.query["kind"],
            states=self.query["state"],
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, JOB)


class JobOne(ApiView):
    """`/jobs/{id}/`."""

    @contract(Permission.READ, "activity", {200: JOB})
    def get(self, request: Request, job_id: int) -> Response:
        """Show a job with its phase, progress, counts and error."""
        return Response(JOB.render(jobs.get_job(job_id, principal=self.principal)))


class NodeList(ApiView):
    """`/nodes/`."""

    @contract(
        Permission.READ,
        "activity",
        {200: Paged(NODE)},
        query=(
            boolean("alive", "Only those that are, or are not."),
            boolean("lost", "Only those that died or went silent, or did not."),
            *PAGE,
        ),
    )
    def get(self, request: Request) -> Response:
        """List the processes that deliver or have delivered, newest first.

        Each says what it holds, and what it had begun when it was lost.
        """
        found = nodes.list_nodes(
            principal=self.principal,
            alive=self.query["alive"],
            lost=self.query["lost"],
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, NODE)


class AuditList(ApiView):
    """`/audit/`."""

    @contract(
        Permission.READ,
        "activity",
        {200: Paged(AUDIT)},
        query=(
            text("actor"),
            text("action", "Such as message.approved."),
            text("object_type"),
            text("object_id"),
            time("after"),
            time("before"),
            *PAGE,
        ),
    )
    def get(self, request: Request) -> Response:
        """List who did what, when and why, newest first."""
        names = ("actor", "action", "object_type", "object_id", "after", "before")
        found = audit.list_audit(
            audit.AuditFilter(**{name: self.query[name] for name in names}),
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, AUDIT)
