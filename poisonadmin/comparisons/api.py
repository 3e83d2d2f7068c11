"""Comparisons of failing messages with others: what failing ones share and others have not."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.comparisons.commands import requests
from poisonadmin.comparisons.queries.comparisons import ComparisonRow, get_comparison
from poisonadmin.core.domain.access import Permission
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.web.api.contract import FilterField, Identifier, StrictSerializer, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

COMPARISON = Shape(
    "Comparison",
    ComparisonRow,
    leave_out=("is_against_delivered", "with_payload"),
    kinds={"state": RunState},
)


class FilteredInput(StrictSerializer):
    """Messages that a filter finds: parameters of `GET /messages/`."""

    filter = FilterField()


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "pattern": "^[0-9]{1,19}$"},
            {"type": "object", "properties": {"filter": {"type": "object"}}, "required": ["filter"]},
        ]
    }
)
class SelectionField(serializers.Field[Any, Any, Any, Any]):
    """The id of a selection, or a filter."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the arguments of `request_comparison`."""
        if isinstance(data, str):
            identifier = Identifier()
            identifier.field_name = self.field_name
            return {"selection_id": identifier.to_internal_value(data)}
        filtered = FilteredInput(data=data)
        filtered.is_valid(raise_exception=True)
        return {"message_filter": filtered.validated_data["filter"]}


class ComparisonInput(StrictSerializer):
    """`selection`: an id, or `{"filter": …}`, which is frozen. `against`: what to compare it with; by default what was
    delivered at the same addresses in the same time."""

    selection = SelectionField()
    against = FilteredInput(required=False, allow_null=True, default=None)


class ComparisonList(ApiView):
    """`/comparisons/`."""

    @contract(Permission.READ, "comparisons", {202: COMPARISON}, body=ComparisonInput, acts=True)
    def post(self) -> Response:
        """Ask what messages have in common that others have not. A worker compares them, mostly within 20 s.

        Values in payloads are compared where the caller may read payloads.
        """
        body = self.body
        comparison_id = requests.request_comparison(
            **body["selection"],
            against=None if body["against"] is None else body["against"]["filter"],
            principal=self.principal,
        )
        row = get_comparison(comparison_id, principal=self.principal)
        location = self.request.build_absolute_uri(f"{comparison_id}/")
        return Response(COMPARISON.render(row), status=202, headers={"Location": location})


class ComparisonOne(ApiView):
    """`/comparisons/{id}/`."""

    @contract(Permission.READ, "comparisons", {200: COMPARISON})
    def get(self, comparison_id: int) -> Response:
        """Show a comparison; its findings, best first, are known when it has succeeded."""
        return Response(COMPARISON.render(get_comparison(comparison_id, principal=self.principal)))


class ComparisonCancel(ApiView):
    """`/comparisons/{id}/cancel/`."""

    @contract(Permission.READ, "comparisons", {200: COMPARISON}, acts=True)
    def post(self, comparison_id: int) -> Response:
        """Cancel a comparison; 409 for one that has ended. Another account's takes the permission `decide`."""
        requests.cancel_comparison(comparison_id, principal=self.principal)
        return Response(COMPARISON.render(get_comparison(comparison_id, principal=self.principal)))


urlpatterns = [
    route("comparisons/", ComparisonList, name="api-comparisons"),
    route("comparisons/<id:comparison_id>/", ComparisonOne, name="api-comparison"),
    route("comparisons/<id:comparison_id>/cancel/", ComparisonCancel, name="api-comparison-cancel"),
]
