"""The failure log and counts."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.messages.domain.outcome import Outcome
from poisonadmin.messages.queries import counts
from poisonadmin.messages.queries.counts import ScopeCounts
from poisonadmin.search.queries import failures
from poisonadmin.search.queries.failures import FailureRow
from poisonadmin.web.api.contract import PAGE, Paged, contract, identifier, pattern, text, time
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

FAILURE = Shape("Failure", FailureRow, kinds={"outcome": Outcome})
STATS = Shape("Counts", ScopeCounts)


class FailureList(ApiView):
    """`/failures/`."""

    @contract(
        Permission.READ,
        "failures",
        {200: Paged(FAILURE)},
        query=(
            pattern("address", "Where the message is now: an address or a pattern."),
            identifier("group", many=True),
            text(
                "error",
                "Part of the failure group's title, class or cause, or a phrase of the failure's message.",
                many=True,
            ),
            text("destination", many=True),
            identifier("message"),
            time("failed_after"),
            time("failed_before"),
            *PAGE,
        ),
    )
    def get(self) -> Response:
        """List attempts that failed, across messages, newest first."""
        query = self.query
        only = failures.FailureFilter(
            addresses=query["address"],
            groups=query["group"],
            errors=query["error"],
            destinations=query["destination"],
            message=query["message"],
            failed_after=query["failed_after"],
            failed_before=query["failed_before"],
        )
        return self.listed(FAILURE, failures.list_failures, only)


class MessageCounts(ApiView):
    """`/stats/`."""

    operation = "stats"

    @contract(Permission.READ, "failures", {200: STATS})
    def get(self) -> Response:
        """Count messages exactly, by state, reason, group and both addresses, and those without a confirmation."""
        return Response(STATS.render(counts.all_counts(self.principal)))


urlpatterns = [
    route("failures/", FailureList, name="api-failures"),
    route("stats/", MessageCounts, name="api-stats"),
]
