"""The processes that deliver, and the audit log."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.store.models.claim import NodeEnd
from poisonadmin.system.queries import audit, nodes
from poisonadmin.system.queries.audit import AuditRow
from poisonadmin.system.queries.nodes import NodeRow
from poisonadmin.web.api.contract import PAGE, Paged, boolean, contract, text, time
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

NODE = Shape("Node", NodeRow, kinds={"end": NodeEnd | None})
AUDIT = Shape("AuditEntry", AuditRow)


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
    def get(self) -> Response:
        """List the processes that deliver or have delivered, newest first.

        Each says what it holds, and what it had begun when it was lost.
        """
        return self.listed(NODE, nodes.list_nodes, alive=self.query["alive"], lost=self.query["lost"])


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
    def get(self) -> Response:
        """List who did what, when and why, newest first."""
        names = ("actor", "action", "object_type", "object_id", "after", "before")
        return self.listed(AUDIT, audit.list_audit, audit.AuditFilter(**{name: self.query[name] for name in names}))


urlpatterns = [
    route("nodes/", NodeList, name="api-nodes"),
    route("audit/", AuditList, name="api-audit"),
]
