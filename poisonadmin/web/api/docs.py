"""The OpenAPI document, and the page that shows it."""

from functools import lru_cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.web.api.contract import contract
from poisonadmin.web.api.problems import plain_problem
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.view import ApiView, route


@lru_cache(maxsize=1)
def _document() -> Any:
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


class Schema(ApiView):
    """`/schema/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ, "docs", {200: {"type": "object", "additionalProperties": True}})
    def get(self) -> Response:
        """Return this document."""
        return Response(_document())


@require_safe
@login_required
@ensure_csrf_cookie
def docs_page(request: HttpRequest) -> HttpResponse:
    """Show the document, with requests to try out under one's own session."""
    return render(request, "api/docs.html")


@csrf_exempt
def nothing_here(request: HttpRequest) -> HttpResponse:
    """Answer 404 as the API does."""
    hint = "" if request.path.endswith("/") else " Paths end with a slash."
    return plain_problem(request, status=404, code="not_found", detail=f"There is nothing at {request.path}.{hint}")


urlpatterns = [
    route("schema/", Schema, name="api-schema"),
    path("docs/", docs_page, name="api-docs"),
]
