"""Pages for what went wrong: what happened, what did not happen, the next step, and the id of the request."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import structlog
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.errors import PoisonAdminError


def readable_queries(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: refuse a query that is no UTF-8, which would be read as if other characters stood there."""

    def handled(request: HttpRequest) -> HttpResponse:
        try:
            unquote_to_bytes(request.META.get("QUERY_STRING", "")).decode()
        except UnicodeDecodeError as error:
            raise BadRequest("The query of the address is not UTF-8.") from error
        return get_response(request)

    return handled


@dataclass(frozen=True)
class Advice:
    """`nothing` says what did not happen, `next_step` what to do."""

    title: str
    nothing: str
    next_step: str


NOT_FOUND = Advice(
    "Not found",
    "Nothing was changed.",
    "Check the address, or go back to the list. Messages outside your addresses are not found either.",
)
FORBIDDEN = Advice(
    "Your role does not allow this",
    "Nothing was changed.",
    "Ask an administrator of PoisonAdmin for a role that includes it.",
)
STALE = Advice(
    "It changed since your page was made",
    "Your decision was not applied; nothing was changed.",
    "Read its current state, then decide again.",
)
GONE = Advice(
    "Removed for good",
    "It cannot be shown any more.",
    "Nobody can bring it back. The sentence above says why.",
)
INVALID = Advice(
    "This cannot be done as asked", "Nothing was changed.", "Correct what the sentence above names, then try again."
)
BROKEN = Advice(
    "Something went wrong on our side",
    "Your request may not have been carried out. It was not carried out in part.",
    "Try again. When it happens again, give an administrator the request id.",
)
NO_ROLE = Advice(
    "Your account has no role yet",
    "You are logged in, and can see nothing.",
    "Ask an administrator of PoisonAdmin to give your account a role.",
)
CSRF = Advice(
    "This form is too old, or was not made by this site",
    "Nothing was changed.",
    "Go back, load the page again and send the form again. Cookies must be allowed.",
)
_BY_STATUS = {403: FORBIDDEN, 404: NOT_FOUND, 409: STALE, 410: GONE, 412: STALE}


def error_page(request: HttpRequest, error: PoisonAdminError) -> HttpResponse:
    """Render an error of ours, with its status and code."""
    audit.note_refused(request, status=error.status, code=error.code)
    return advice_page(request, _BY_STATUS.get(error.status, INVALID), error.detail, error.status, error.code)


def advice_page(request: HttpRequest, advice: Advice, detail: str, status: int, code: str = "") -> HttpResponse:
    """Render advice as a page, or as a fragment when htmx asked."""
    template = "web/_error.html" if getattr(request, "htmx", False) else "error.html"
    context = {"advice": advice, "detail": detail, "status": status, "code": code, "request_id": request_id()}
    return render(request, template, context, status=status)


def request_id() -> str:
    """Return the id of the request that is being served; empty outside of one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Serve as handler404."""
    return advice_page(request, NOT_FOUND, "There is no such page.", 404, "not_found")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Serve as handler403."""
    return advice_page(request, FORBIDDEN, "The server refused this request.", 403, "not_allowed")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Serve as handler400."""
    return advice_page(request, INVALID, "The server cannot read this request.", 400, "bad_request")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Serve as CSRF_FAILURE_VIEW."""
    return advice_page(request, CSRF, "The form's token does not match.", 403, "csrf_failed")


def server_error(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Serve as handler500; touches neither the database nor the session, which may be what is broken."""
    context = {
        "advice": BROKEN,
        "detail": "The server met an error that it did not expect.",
        "request_id": request_id(),
    }
    return HttpResponse(render_to_string("500.html", context), status=500)
