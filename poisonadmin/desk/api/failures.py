"""The failure log and counts, failure groups, and groups that look alike."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.desk.queries.brief import MARKDOWN, group_brief
from poisonadmin.groups.alike import commands as alike_groups
from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.groups.alike.queries import (
    AlikeSearchRow,
    ProposalRow,
    get_proposal,
    get_search,
    list_proposals,
)
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import MAX_MEMBERS, merge, split
from poisonadmin.groups.domain.annotations import MAX_NOTE_CHARS, MAX_TAGS, MAX_URL_CHARS
from poisonadmin.groups.queries.groups import ORDERINGS, GroupDetail, GroupRow, get_group, list_groups
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.queries import counts
from poisonadmin.messages.queries.counts import ScopeCounts
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import failures
from poisonadmin.search.queries.failures import FailureRow
from poisonadmin.search.queries.meanings import not_searched
from poisonadmin.web.api.contract import (
    PAGE,
    Identifier,
    JsonObject,
    Moment,
    OptionalReasonInput,
    Paged,
    Raw,
    ReasonInput,
    StrictSerializer,
    Text,
    boolean,
    choice,
    contract,
    identifier,
    ordering,
    pattern,
    text,
    time,
)
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

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
        """List attempts that failed, across messages, newest first; `not_searched` as in the list of messages."""
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
        asked = parse_filter({"error": query["error"]})
        return self.leaving_out(not_searched(asked, self.principal), self.listed(FAILURE, failures.list_failures, only))


class MessageCounts(ApiView):
    """`/stats/`."""

    operation = "stats"

    @contract(Permission.READ, "failures", {200: STATS})
    def get(self) -> Response:
        """Count messages exactly, by state, reason, group and both addresses, and those without a confirmation."""
        return Response(STATS.render(counts.all_counts(self.principal)))


GROUP = Shape("FailureGroup", GroupRow, leave_out=("revision",))
_ORDERING = ordering(
    ORDERINGS,
    "By undecided messages, messages, failures, failures in the last 24 hours, last failure (the default) or first.",
)
GROUP_DETAIL = Shape("FailureGroupDetail", GroupDetail, leave_out=("revision",))


class GroupChange(StrictSerializer):
    """The fields to change; a field that is left out stays. `null`, an empty text or an empty list empties a field."""

    owner = Text(required=False, allow_null=True, allow_blank=True, max_length=150, help_text="The name of an account.")
    note = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_NOTE_CHARS)
    ticket_url = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_URL_CHARS)
    tags = serializers.ListField(child=Text(), required=False, max_length=MAX_TAGS)
    snoozed_until = Moment(required=False, allow_null=True)
    snoozed_until_grown = JsonObject(required=False, allow_null=True, help_text="`by` failures, or by `percent`.")


class GroupsInput(ReasonInput):
    """Which other groups, and why."""

    groups = serializers.ListField(child=Identifier(), min_length=1, max_length=MAX_MEMBERS)


class GroupList(ApiView):
    """`/groups/`."""

    @contract(
        Permission.READ,
        "failures",
        {200: Paged(GROUP)},
        query=(
            text("error", "Part of the title, class or cause, or of the message of the group's sample."),
            text("owner", "The name of the account that owns the group."),
            text("tag", "A tag of the group.", many=True),
            boolean("snoozed", "`true`: only groups that are snoozed now; otherwise they are left out."),
            _ORDERING,
            *PAGE,
        ),
    )
    def get(self) -> Response:
        """List failure groups, the latest failure first unless `ordering` says otherwise; `not_searched` as in the
        list of messages."""
        query = self.query
        given = {
            "failure": [query["error"] or ""],
            "group_owner": [query["owner"] or ""],
            "group_tag": query["tag"],
            "snoozed": ["true" if query["snoozed"] else "false"],
        }
        asked = parse_filter(given)
        return self.leaving_out(
            not_searched(asked, self.principal),
            self.listed(GROUP, list_groups, asked, ordering=query["ordering"] or "-last_at"),
        )


class GroupOne(ApiView):
    """`/groups/{id}/`."""

    @contract(Permission.READ, "failures", {200: GROUP_DETAIL})
    def get(self, group_id: int) -> Response:
        """Show a failure group with its counts by state, its failures by hour and day, and what is merged into it."""
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.principal))

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupChange, decides=True)
    def patch(self, group_id: int) -> Response:
        """Change the owner, note, ticket link, tags or snooze of a failure group."""
        annotate(group_id, self.body, principal=self.principal, expected_revision=self.expected_version)
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.reader))


class GroupBrief(ApiView):
    """`/groups/{id}/brief/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ, "failures", {200: Raw(MARKDOWN)})
    def get(self, group_id: int) -> HttpResponse:
        """Return the incident brief of a failure group as Markdown: its likely causes, figures, owner, versions, what
        its failures have in common, what was tried, and links. It quotes no payload."""
        base = self.request.build_absolute_uri("/")[:-1]
        brief = group_brief(group_id, principal=self.principal, base=base, now=timezone.now())
        return HttpResponse(brief, content_type=f"{MARKDOWN}; charset=utf-8")


class _GroupMove(ApiView):
    """Base of the endpoints that merge and split groups."""

    def moved(self, move: Callable[..., Any], group_id: int) -> Response:
        """Carry it out and return the group as it is now."""
        get_group(group_id, principal=self.reader)
        move(group_id, self.body["groups"], principal=self.principal, reason=self.body["reason"])
        return shown(GROUP_DETAIL, get_group(group_id, principal=self.reader))


class GroupMerge(_GroupMove):
    """`/groups/{id}/merge/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupsInput, acts=True)
    def post(self, group_id: int) -> Response:
        """Merge other failure groups into this one, with the failures that they will get."""
        return self.moved(merge, group_id)


class GroupSplit(_GroupMove):
    """`/groups/{id}/split/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=GroupsInput, acts=True)
    def post(self, group_id: int) -> Response:
        """Split off groups that were merged into this one: each is a group of its own again."""
        return self.moved(split, group_id)


SEARCH = Shape("AlikeGroupsSearch", AlikeSearchRow, kinds={"state": RunState})
PROPOSAL = Shape("GroupProposal", ProposalRow, kinds={"state": ProposalState})


class ProposalList(ApiView):
    """`/groups/alike/`."""

    @contract(
        Permission.READ,
        "failures",
        {200: Paged(PROPOSAL)},
        query=(choice("state", ProposalState, "`open` by default."), *PAGE),
    )
    def get(self) -> Response:
        """List the proposals to merge groups that look alike, best first. Nothing is merged by itself."""
        return self.listed(PROPOSAL, list_proposals, ProposalState(self.query["state"] or ProposalState.OPEN))

    @contract(Permission.DECIDE, "failures", {202: SEARCH}, acts=True)
    def post(self) -> Response:
        """Have groups that look alike searched for; the search that is under way, where there is one.

        What it proposes takes the place of the former open proposals.
        """
        row = get_search(alike_groups.request_search(principal=self.principal), principal=self.reader)
        location = self.request.build_absolute_uri(f"searches/{row.id}/")
        return Response(SEARCH.render(row), status=202, headers={"Location": location})


class AlikeSearchOne(ApiView):
    """`/groups/alike/searches/{id}/`."""

    @contract(Permission.READ, "failures", {200: SEARCH})
    def get(self, alike_search_id: int) -> Response:
        """Show a search for groups that look alike."""
        return Response(SEARCH.render(get_search(alike_search_id, principal=self.principal)))


class AlikeSearchCancel(ApiView):
    """`/groups/alike/searches/{id}/cancel/`."""

    @contract(Permission.DECIDE, "failures", {200: SEARCH}, acts=True)
    def post(self, alike_search_id: int) -> Response:
        """Cancel a search; 409 for one that has ended. The proposals of before stay."""
        alike_groups.cancel_search(alike_search_id, principal=self.principal)
        return Response(SEARCH.render(get_search(alike_search_id, principal=self.reader)))


class ProposalOne(ApiView):
    """`/groups/alike/{id}/`."""

    @contract(Permission.READ, "failures", {200: PROPOSAL})
    def get(self, proposal_id: int) -> Response:
        """Show a proposal, with the failures that were compared."""
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.principal)))


class ProposalMerge(ApiView):
    """`/groups/alike/{id}/merge/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP_DETAIL}, body=OptionalReasonInput, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Merge the groups of a proposal; `POST /groups/{id}/split/` undoes it.

        Without a `reason` it is that they look alike, and what they share.
        """
        row = alike_groups.merge_by(proposal_id, reason=self.body["reason"], principal=self.principal)
        return shown(GROUP_DETAIL, get_group(row.into.id, principal=self.reader))


class ProposalDismiss(ApiView):
    """`/groups/alike/{id}/dismiss/`."""

    @contract(Permission.DECIDE, "failures", {200: PROPOSAL}, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Dismiss a proposal: it is not made again as long as its groups have the same fingerprints."""
        alike_groups.dismiss(proposal_id, principal=self.principal)
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.reader)))


class ProposalAgain(ApiView):
    """`/groups/alike/{id}/propose_again/`."""

    @contract(Permission.DECIDE, "failures", {200: PROPOSAL}, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Make a dismissed proposal again."""
        alike_groups.propose_again(proposal_id, principal=self.principal)
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.reader)))


urlpatterns = [
    route("failures/", FailureList, name="api-failures"),
    route("stats/", MessageCounts, name="api-stats"),
    route("groups/", GroupList, name="api-groups"),
    route("groups/<id:group_id>/", GroupOne, name="api-group"),
    route("groups/<id:group_id>/brief/", GroupBrief, name="api-group-brief"),
    route("groups/<id:group_id>/merge/", GroupMerge, name="api-group-merge"),
    route("groups/<id:group_id>/split/", GroupSplit, name="api-group-split"),
    route("groups/alike/", ProposalList, name="api-group-proposals"),
    route("groups/alike/searches/<id:alike_search_id>/", AlikeSearchOne, name="api-alike-search"),
    route("groups/alike/searches/<id:alike_search_id>/cancel/", AlikeSearchCancel, name="api-alike-search-cancel"),
    route("groups/alike/<id:proposal_id>/", ProposalOne, name="api-group-proposal"),
    route("groups/alike/<id:proposal_id>/merge/", ProposalMerge, name="api-group-proposal-merge"),
    route("groups/alike/<id:proposal_id>/dismiss/", ProposalDismiss, name="api-group-proposal-dismiss"),
    route("groups/alike/<id:proposal_id>/propose_again/", ProposalAgain, name="api-group-proposal-again"),
]
