"""The OpenAPI document, written from the views' contracts, and the page that shows it."""

import re
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiRequest, OpenApiResponse
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.web.api import problems
from poisonadmin.web.api.contract import Contract, Given, Paged, Parameter, Raw, contract, contract_of
from poisonadmin.web.api.problems import plain_problem
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import ID, JsonSchema, Shape
from poisonadmin.web.api.view import ApiView, route

_JSON = "application/json"
_HEADERS = {
    "acts": OpenApiParameter(
        "Idempotency-Key",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        OpenApiParameter.HEADER,
        description="A repeated request with the same key gets the same answer and is not carried out again.",
    ),
    "decides": OpenApiParameter(
        "If-Match",
        {"type": "string", "example": '"NDLV-3-2"'},
        OpenApiParameter.HEADER,
        description="The ETag of the object as it was read; 412 when it has changed since.",
    ),
}
_PATH_KINDS: dict[str, JsonSchema] = {"name": {"type": "string", "minLength": 1, "maxLength": 255}}


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tokens, in the document's terms."""

    target_class = "poisonadmin.web.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> JsonSchema:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "pa_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The dashboard's session, in the document's terms."""

    target_class = "poisonadmin.web.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> JsonSchema:
        """Return the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class ContractSchema(AutoSchema):
    """Describes an operation by its contract."""

    @property
    def contract(self) -> Contract:
        """The contract of the operation being described."""
        found = contract_of(self.view, self.method)
        assert found is not None, f"{self.view} {self.method} has no contract"
        return found

    def get_operation_id(self) -> str:
        """Return `message_list_get` for `MessageList.get`, or what the view says that it was called before."""
        words = getattr(self.view, "operation", "") or re.sub(r"(?<!^)(?=[A-Z])", "_", type(self.view).__name__).lower()
        return f"{words}_{self.method.lower()}"

    def get_tags(self) -> list[str]:
        """Return the contract's tag."""
        return [self.contract.tag]

    def get_summary(self) -> str:
        """Return the first sentence of the handler's docstring."""
        return str(self.get_description()).split("\n", maxsplit=1)[0].rstrip(".")

    def get_description(self) -> str:  # type: ignore[override]
        """Return the handler's docstring and the permission it needs."""
        text = getattr(self.view, self.method.lower()).__doc__ or ""
        paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        return "\n\n".join([*paragraphs, f"Needs the permission {self._permissions}."])

    @property
    def _permissions(self) -> str:
        return " or ".join(f"`{one}`" for one in self.contract.permissions)

    def get_override_parameters(self) -> list[Any]:
        """Return the parameters in the path, in the query and in the headers."""
        names = re.findall(r"{(\w+)}", self.path)
        path = [
            OpenApiParameter(name, _PATH_KINDS.get(name, ID), OpenApiParameter.PATH, required=True) for name in names
        ]
        query = [_query_parameter(parameter) for parameter in self.contract.query]
        headers = [header for flag, header in _HEADERS.items() if getattr(self.contract, flag)]
        return [*path, *query, *headers]

    def get_request_serializer(self) -> Any:
        """Return what the body is checked with, or the schemas of a body that the handler reads itself."""
        if self.contract.raw_body:
            return {kind: OpenApiRequest(schema) for kind, schema in self.contract.raw_body.items()}
        return self.contract.body

    def get_response_serializers(self) -> Any:
        """Return the schema of every answer; whatever goes wrong is a problem."""
        answers: dict[Any, Any] = {}
        for status, given in self.contract.gives.items():
            media_type = given.media_type if isinstance(given, Raw) else _JSON
            answers[(status, media_type)] = OpenApiResponse(self._schema_of(given))
        problem = self._component("Problem", problems.SCHEMA)
        answers[("default", problems.MEDIA_TYPE)] = OpenApiResponse(problem, description="Any error.")
        return answers

    def _schema_of(self, given: Given) -> JsonSchema | None:
        if isinstance(given, Paged):
            return _page_of(self._component(given.shape.name, given.shape.schema))
        if isinstance(given, Shape):
            return self._component(given.name, given.schema)
        if isinstance(given, Raw):
            return given.schema or {"type": "string", "format": "binary"}
        return given

    def _component(self, name: str, schema: JsonSchema) -> JsonSchema:
        kind = ResolvedComponent.SCHEMA
        component = ResolvedComponent(name=name, type=kind, schema=schema, object=name)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)
        reference: JsonSchema = component.ref
        return reference


def _query_parameter(parameter: Parameter) -> OpenApiParameter:
    schema = {"type": "array", "items": parameter.schema} if parameter.many else parameter.schema
    return OpenApiParameter(
        parameter.name,
        schema,
        OpenApiParameter.QUERY,
        required=parameter.required,
        description=parameter.about,
        explode=True if parameter.many else None,
    )


def _page_of(item: JsonSchema) -> JsonSchema:
    link = {"type": "string", "format": "uri", "nullable": True}
    return {
        "type": "object",
        "properties": {
            "results": {"type": "array", "items": item},
            "next": link,
            "previous": link,
            "count": {"type": "integer", "description": "How many there are on all pages."},
            "count_is_exact": {"type": "boolean", "description": "Where false, there are at least `count`."},
        },
        "required": ["results", "next", "previous", "count", "count_is_exact"],
    }


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
