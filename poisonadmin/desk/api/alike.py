"""Failure groups that look alike: searches for them, and proposals to merge."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.groups.alike.commands import decisions
from poisonadmin.groups.alike.commands.requests import cancel_search, request_search
from poisonadmin.groups.alike.domain.proposals import ProposalState
from poisonadmin.groups.alike.queries.proposals import (
    AlikeSearchRow,
    ProposalRow,
    get_proposal,
    get_search,
    list_proposals,
)
from poisonadmin.groups.queries.groups import GroupDetail, get_group
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.web.api.contract import MAX_REASON_CHARS, PAGE, Paged, StrictSerializer, Text, choice, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

SEARCH = Shape("AlikeGroupsSearch", AlikeSearchRow, kinds={"state": RunState})
PROPOSAL = Shape("GroupProposal", ProposalRow, kinds={"state": ProposalState})
GROUP = Shape("FailureGroupDetail", GroupDetail, leave_out=("revision",))


class OptionalReasonInput(StrictSerializer):
    """Why; where nothing is said, that they look alike, and what they share."""

    reason = Text(max_length=MAX_REASON_CHARS, required=False, default="")


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
        row = get_search(request_search(principal=self.principal), principal=self.reader)
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
        cancel_search(alike_search_id, principal=self.principal)
        return Response(SEARCH.render(get_search(alike_search_id, principal=self.reader)))


class ProposalOne(ApiView):
    """`/groups/alike/{id}/`."""

    @contract(Permission.READ, "failures", {200: PROPOSAL})
    def get(self, proposal_id: int) -> Response:
        """Show a proposal, with the failures that were compared."""
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.principal)))


class ProposalMerge(ApiView):
    """`/groups/alike/{id}/merge/`."""

    @contract(Permission.DECIDE, "failures", {200: GROUP}, body=OptionalReasonInput, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Merge the groups of a proposal; `POST /groups/{id}/split/` undoes it."""
        row = decisions.merge_by(proposal_id, reason=self.body["reason"], principal=self.principal)
        return shown(GROUP, get_group(row.into.id, principal=self.reader))


class ProposalDismiss(ApiView):
    """`/groups/alike/{id}/dismiss/`."""

    @contract(Permission.DECIDE, "failures", {200: PROPOSAL}, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Dismiss a proposal: it is not made again as long as its groups have the same fingerprints."""
        decisions.dismiss(proposal_id, principal=self.principal)
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.reader)))


class ProposalAgain(ApiView):
    """`/groups/alike/{id}/propose_again/`."""

    @contract(Permission.DECIDE, "failures", {200: PROPOSAL}, acts=True)
    def post(self, proposal_id: int) -> Response:
        """Make a dismissed proposal again."""
        decisions.propose_again(proposal_id, principal=self.principal)
        return Response(PROPOSAL.render(get_proposal(proposal_id, principal=self.reader)))


urlpatterns = [
    route("groups/alike/", ProposalList, name="api-group-proposals"),
    route("groups/alike/searches/<id:alike_search_id>/", AlikeSearchOne, name="api-alike-search"),
    route("groups/alike/searches/<id:alike_search_id>/cancel/", AlikeSearchCancel, name="api-alike-search-cancel"),
    route("groups/alike/<id:proposal_id>/", ProposalOne, name="api-group-proposal"),
    route("groups/alike/<id:proposal_id>/merge/", ProposalMerge, name="api-group-proposal-merge"),
    route("groups/alike/<id:proposal_id>/dismiss/", ProposalDismiss, name="api-group-proposal-dismiss"),
    route("groups/alike/<id:proposal_id>/propose_again/", ProposalAgain, name="api-group-proposal-again"),
]
