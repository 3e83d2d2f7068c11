"""Saved views: `/views/`."""

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.search.views import commands
from poisonadmin.search.views.queries import SavedViewRow, get_saved_view, list_saved_views
from poisonadmin.web.api.contract import Paged, StrictSerializer, Text, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

SAVED_VIEW = Shape("SavedView", SavedViewRow)


class SavedViewInput(StrictSerializer):
    """`query`: parameters of the page Triage, such as `state=NDLV&group_by=failure`."""

    name = Text(max_length=commands.MAX_NAME_CHARS)
    query = Text(max_length=commands.MAX_QUERY_CHARS)
    is_shared = serializers.BooleanField(required=False, default=False)


class SavedViewList(ApiView):
    """`/views/`."""

    @contract(Permission.READ, "views", {200: Paged(SAVED_VIEW)})
    def get(self) -> Response:
        """List one's own saved views and the shared ones, by name."""
        return self.whole(SAVED_VIEW, list_saved_views(principal=self.principal))

    @contract(Permission.READ, "views", {201: SAVED_VIEW}, body=SavedViewInput, acts=True)
    def post(self) -> Response:
        """Save a view in place of one's own of this name. To share it takes the permission to decide."""
        view_id = commands.save_view(**self.body, principal=self.principal)
        return self.created(SAVED_VIEW, get_saved_view(view_id, principal=self.reader), view_id)


class SavedViewOne(ApiView):
    """`/views/{id}/`."""

    @contract(Permission.READ, "views", {200: SAVED_VIEW})
    def get(self, view_id: int) -> Response:
        """Show a saved view."""
        return shown(SAVED_VIEW, get_saved_view(view_id, principal=self.principal))

    @contract(Permission.READ, "views", {204: None})
    def delete(self, view_id: int) -> Response:
        """Remove a view of one's own; an administrator removes shared ones too."""
        commands.remove_view(view_id, principal=self.principal)
        return Response(status=204)


urlpatterns = [
    route("views/", SavedViewList, name="api-views"),
    route("views/<id:view_id>/", SavedViewOne, name="api-view"),
]
