"""Calls views of the API in this process, for who has sent a request: with the same rights, checks and audit rows."""

import io
import json
from collections.abc import Mapping
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, QueryDict
from django.urls import resolve, reverse

# What is about the outer request alone.
_ITS_OWN = frozenset({"HTTP_IF_MATCH", "HTTP_IDEMPOTENCY_KEY", "HTTP_ACCEPT"})


class ViewRefused(Exception):
    """Raised when a view has refused; the text says why."""


def call_view(
    outer: HttpRequest, method: str, route: str, body: Mapping[str, Any] | None = None, *, query: str = "", **path: Any
) -> Any:
    """Return the data of what a view answers, inside the transaction of the caller.

    `outer`: the request that was authenticated. `route`: the view's name; `path`: what its path has in it.
    Errors: `ViewRefused`; `OperationalError` where the database does not answer.
    """
    raw = b"" if body is None else json.dumps(body).encode()
    request = HttpRequest()
    request.method, request.path = method, reverse(route, kwargs=path)
    request.META = {name: value for name, value in outer.META.items() if name not in _ITS_OWN}
    request.META |= {"QUERY_STRING": query, "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(raw))}
    request.GET = QueryDict(query)
    request._stream = io.BytesIO(raw)  # noqa: SLF001
    request._read_started = False  # type: ignore[attr-defined]  # noqa: SLF001
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]  # noqa: SLF001  (the outer one was checked)
    for name in ("user", "session"):
        if hasattr(outer, name):
            setattr(request, name, getattr(outer, name))
    found = resolve(request.path)
    response = found.func(request, **found.kwargs)
    if response.status_code == 503 and response.data["code"] == "unavailable":
        raise OperationalError(response.data["detail"])
    if response.status_code >= 500 and response.status_code != 503:
        raise RuntimeError(f"{method} {request.path} failed: the log has its error")
    if response.status_code >= 400:
        errors = response.data.get("errors") or []
        raise ViewRefused("; ".join(f"{one['field']}: {one['detail']}" for one in errors) or response.data["detail"])
    return response.data


def fields_taken(route: str, method: str, **path: Any) -> Mapping[str, Any]:
    """Return the fields that a view takes, by name."""
    view: Any = resolve(reverse(route, kwargs=path)).func
    fields: Mapping[str, Any] = getattr(view.view_class, method).contract.body().get_fields()
    return fields
