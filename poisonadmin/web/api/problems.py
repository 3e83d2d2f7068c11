"""Every error as `application/problem+json` (RFC 9457), made in this one place."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import PoolTimeout
from rest_framework import exceptions
from rest_framework.response import Response

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.web.api.rendering import to_json

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:poisonadmin:problem:"
logger = logging.getLogger(__name__)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; `detail` is for people.",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "instance": {"type": "string"},
        "request_id": {"type": "string", "nullable": True},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
                "required": ["field", "code", "detail"],
            },
        },
        "state": {"type": "string", "description": "The state that the message is in, for transition_not_allowed."},
    },
    "required": ["type", "title", "status", "detail", "code", "instance", "request_id"],
}

# What REST framework and Django raise, as (status, code); the first class that fits counts.
_KNOWN: tuple[tuple[type[Exception], int, str], ...] = (
    (exceptions.ValidationError, 400, "invalid_request"),
    (exceptions.ParseError, 400, "malformed_request"),
    (exceptions.NotAuthenticated, 401, "not_authenticated"),
    (exceptions.AuthenticationFailed, 401, "authentication_failed"),
    (exceptions.PermissionDenied, 403, "not_allowed"),
    (exceptions.NotFound, 404, "not_found"),
    (exceptions.MethodNotAllowed, 405, "method_not_allowed"),
    (exceptions.NotAcceptable, 406, "not_acceptable"),
    (exceptions.UnsupportedMediaType, 415, "unsupported_media_type"),
    (Http404, 404, "not_found"),
    (PermissionDenied, 403, "not_allowed"),
    (RequestDataTooBig, 413, "body_too_large"),
    (SuspiciousOperation, 400, "malformed_request"),
    (UnreadablePostError, 400, "body_broken_off"),
    (PoolTimeout, 503, "unavailable"),
    (ReadOnlySqlTransaction, 503, "read_only"),
    (OperationalError, 503, "unavailable"),
    (InterfaceError, 503, "unavailable"),
)
# What a refusal tells a client besides.
_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="poisonadmin"'},
    429: {"Retry-After": "2"},
    503: {"Retry-After": "2"},
}
_DETAILS = {
    "not_found": "There is nothing here.",
    "not_acceptable": "Only application/json is offered.",
    "unavailable": "The database does not answer. Nothing was changed; try again in a moment.",
    "read_only": "The database takes no writes at present. Nothing was changed; try again in a moment.",
    "internal_error": "Something unexpected happened and was logged. Give the request id when you report it.",
}


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """Return the response for whatever a view raised; what nobody foresaw is logged and becomes a plain 500."""
    request: HttpRequest = context["request"]._request  # noqa: SLF001
    status, code, detail, more = _described(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, PoisonAdminError):
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    audit.note_refused(context["request"], status=status, code=code)
    content = problem(request, status=status, code=code, detail=detail, **more)
    return Response(content, status=status, content_type=MEDIA_TYPE, headers=_HEADERS.get(status))


def problem_of(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the problem for what was raised before Django was asked; raise what nobody foresaw."""
    status, code, detail, _ = _described(error)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    return plain_problem(request, status=status, code=code, detail=detail)


def problem(request: HttpRequest, *, status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    """Return the members of a problem."""
    return {
        "type": TYPE_PREFIX + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": request.path,
        "request_id": structlog.contextvars.get_contextvars().get("request_id"),
        **more,
    }


def plain_problem(request: HttpRequest, *, status: int, code: str, detail: str) -> HttpResponse:
    """Return a problem outside of any API view."""
    content = to_json(problem(request, status=status, code=code, detail=detail))
    return HttpResponse(content, status=status, content_type=MEDIA_TYPE, headers=_HEADERS.get(status))


def _described(error: Exception) -> tuple[int, str, str, dict[str, Any]]:
    if isinstance(error, PoisonAdminError):
        return error.status, error.code, error.detail, _members(error)
    known = error.__cause__ if isinstance(error, InternalError) else error  # it has no class for a read-only one
    for kind, status, code in _KNOWN:
        if isinstance(known, kind):
            more = {"errors": _fields(error.detail)} if isinstance(error, exceptions.ValidationError) else {}
            exact = "csrf_failed" if code == "not_allowed" and "CSRF" in str(error) else code
            return status, exact, _detail(error, code), more
    return 500, "internal_error", _DETAILS["internal_error"], {}


def _members(error: PoisonAdminError) -> dict[str, Any]:
    more: dict[str, Any] = {}
    named = [(getattr(one, "field", None) or getattr(one, "parameter", None), one) for one in (error, *error.others)]
    if found := [{"field": str(field), "code": one.code, "detail": one.detail} for field, one in named if field]:
        more["errors"] = found
    if state := getattr(error, "state", None):
        more["state"] = str(state)
    return more


def _detail(error: Exception, code: str) -> str:
    if code in _DETAILS:
        return _DETAILS[code]
    if code == "invalid_request":
        return "Some fields are missing or invalid; `errors` names them."
    return str(getattr(error, "detail", "")) or str(error) or HTTPStatus.BAD_REQUEST.phrase


def _fields(detail: Any, path: str = "") -> list[dict[str, str]]:
    if isinstance(detail, Mapping):
        found = [_fields(inner, f"{path}.{name}" if path else str(name)) for name, inner in detail.items()]
        return [field for fields in found for field in fields]
    if isinstance(detail, list):
        return [field for inner in detail for field in _fields(inner, path)]
    return [{"field": path, "code": str(getattr(detail, "code", "invalid")), "detail": str(detail)}]
