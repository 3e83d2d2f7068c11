"""The failure log, failure groups and counts."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.messages.queries import counts, failures
from poisonadmin.messages.queries.counts import ScopeCounts
from poisonadmin.messages.queries.failures import FailureRow, GroupRow
from poisonadmin.web.api.contract import PAGE, Paged, contract, identifier, ordering, pattern, text, time
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView

FAILURE = Shape("Failure", FailureRow, kinds={"outcome": Outcome})
GROUP = Shape("FailureGroup", GroupRow)
_ORDERING = ordering(
    failures.GROUP_ORDERINGS, "By undecided messages, failures, last failure (the default) or first failure."
)
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


class GroupList(ApiView):
    """`/groups/`."""

    @contract(
        Permission.READ,
        "failures",
        {200: Paged(GROUP)},
        query=(
            text("error", "Part of the title, class or cause, or of the message of the group's sample."),
            _ORDERING,
            *PAGE,
        ),
    )
    def get(self) -> Response:
        """List failure groups, the latest failure first unless `ordering` says otherwise."""
        return self.listed(
            GROUP,
            failures.list_groups,
            error=self.query["error"],
            ordering=self.query["ordering"] or "-last_at",
        )


class GroupOne(ApiView):
    """`/groups/{id}/`."""

    @contract(Permission.READ, "failures", {200: GROUP})
    def get(self, group_id: int) -> Response:
        """Show a failure group with its counts by state and its failures by hour."""
        return Response(GROUP.render(failures.get_group(group_id, principal=self.principal)))


class MessageCounts(ApiView):
    """`/stats/`."""

    operation = "stats"

    @contract(Permission.READ, "failures", {200: STATS})
    def get(self) -> Response:
        """Count messages exactly, by state, reason, group and both addresses, and those without a confirmation."""
        return Response(STATS.render(counts.all_counts(self.principal)))
