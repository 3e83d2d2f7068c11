"""Searches in payloads and headers: `/searches/`."""

from dataclasses import replace

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.search.deep.commands.requests import cancel_search, request_search
from poisonadmin.search.deep.queries import SearchRow, first_found, get_search, list_found
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.meanings import not_searched
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.contract import PAGE, FilterField, Paged, StrictSerializer, Text, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

SEARCH = Shape("Search", SearchRow, kinds={"state": RunState})
MESSAGE = Shape("Message", MessageRow, kinds={"state": State, "reason": Reason | None, "address_status": AddressStatus})


class SearchInput(StrictSerializer):
    """`q`: what is searched for, in the grammar of `GET /messages/`, with `payload:` and `payload.$.<path>:`.

    `filter`: other parameters of `GET /messages/`.
    """

    q = Text(max_length=1000)
    filter = FilterField(required=False)


class SearchView(ApiView):
    """The common part of the views of searches."""

    def shown(self, search_id: int, status: int = 200) -> Response:
        """Return a search with its first hits."""
        found = get_search(search_id, principal=self.reader)
        result = replace(found.result, first=first_found(found, principal=self.reader))
        answer = Response(SEARCH.render(replace(found, result=result)), status=status)
        return self.leaving_out(not_searched(parse_filter(found.filter), self.reader), answer)


class SearchList(SearchView):
    """`/searches/`."""

    @contract(Permission.READ, "searches", {202: SEARCH}, body=SearchInput, acts=True)
    def post(self) -> Response:
        """Search payloads and headers, of live messages and of archived ones, the newest first.

        Searches in payloads take the permission `read_payload`. A search is removed a day after its end.
        """
        asked = {**self.body.get("filter", {}), "q": [self.body["q"], *self.body.get("filter", {}).get("q", [])]}
        search_id = request_search(asked, principal=self.principal)
        response = self.shown(search_id, status=202)
        response["Location"] = self.request.build_absolute_uri(f"{search_id}/")
        return response


class SearchOne(SearchView):
    """`/searches/{id}/`."""

    @contract(Permission.READ, "searches", {200: SEARCH})
    def get(self, search_id: int) -> Response:
        """Show how far a search is, and what it has found; 404 where it was made in another scope."""
        return self.shown(search_id)


class SearchMessages(ApiView):
    """`/searches/{id}/messages/`."""

    @contract(Permission.READ, "searches", {200: Paged(MESSAGE)}, query=PAGE)
    def get(self, search_id: int) -> Response:
        """List the live messages that a search has found, as they are now, newest first; `not_searched` as in the list
        of messages."""
        search = get_search(search_id, principal=self.principal)
        left_out = not_searched(parse_filter(search.filter), self.principal)
        return self.leaving_out(left_out, self.listed(MESSAGE, list_found, search))


class SearchCancel(SearchView):
    """`/searches/{id}/cancel/`."""

    @contract(Permission.READ, "searches", {200: SEARCH}, acts=True)
    def post(self, search_id: int) -> Response:
        """End one's own search; what it has found stays listed. Others' are cancelled with `configure`."""
        cancel_search(search_id, principal=self.principal)
        return self.shown(search_id)


urlpatterns = [
    route("searches/", SearchList, name="api-searches"),
    route("searches/<id:search_id>/", SearchOne, name="api-search"),
    route("searches/<id:search_id>/messages/", SearchMessages, name="api-search-messages"),
    route("searches/<id:search_id>/cancel/", SearchCancel, name="api-search-cancel"),
]
