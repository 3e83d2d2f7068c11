"""The base of every view (permission, checked query, checked body, one call, the answer), and its route."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, register_converter, reverse
from rest_framework import exceptions
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from poisonadmin.core.commands.idempotency import Renew, StoredAnswer, once, renew_nothing
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError, PreconditionFailed
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Page
from poisonadmin.core.queries.read_only import require_writable
from poisonadmin.web.api.contract import Contract, contract_of, read_query
from poisonadmin.web.api.rendering import JsonParser, JsonRenderer, Negotiation, digest_of, file_of, to_json
from poisonadmin.web.api.shape import Shape

_VERSION = re.compile(r'"(\d{1,9})"')
JSON = "application/json"
KEY_HEADER = "Idempotency-Key"


def shown(shape: Shape, row: Any, status: int = 200) -> Response:
    """Return an object with its ETag."""
    response = Response(shape.render(row), status=status)
    response["ETag"] = row.etag
    return response


class EncodedBody(PoisonAdminError):
    """Raised when a request body is compressed; nothing is unpacked here, so nothing can swell."""

    code = "unsupported_content_encoding"
    status = 415


class ApiView(APIView):
    """`query` and `body` are what the contract's checks let through. `renew`: what a handler that commits as it goes
    calls first in each transaction.

    `operation`: begins the operation ids of a view that was renamed, so that generated clients keep theirs.
    """

    operation = ""
    works_in_read_only = False

    renderer_classes = (JsonRenderer,)
    parser_classes = (JsonParser,)
    content_negotiation_class: type[BaseContentNegotiation] = Negotiation
    http_method_names = ("get", "head", "post", "put", "patch", "delete")
    query: dict[str, Any]
    renew: Renew = staticmethod(renew_nothing)

    @property
    def principal(self) -> Principal:
        """The caller; there is one, or the view would not have been reached."""
        assert isinstance(self.request.auth, Principal)
        return self.request.auth

    @property
    def reader(self) -> Principal:
        """The caller with leave to read: who was allowed to act is shown what came of it."""
        return self.principal.as_reader

    @cached_property
    def contract(self) -> Contract | None:
        """The contract of the method that was called."""
        return contract_of(self, self.request.method)

    @cached_property
    def body(self) -> dict[str, Any]:
        """The checked body; raise ValidationError, InvalidJson, UnsupportedMediaType."""
        assert self.contract is not None
        assert self.contract.body is not None
        given = self.request.data
        if not isinstance(given, Mapping):
            raise exceptions.ValidationError({"": ["The body must be a JSON object."]}, "not_an_object")
        serializer = self.contract.body(data=given)
        serializer.is_valid(raise_exception=True)
        checked: dict[str, Any] = serializer.validated_data
        return checked

    def if_match(self, etag: re.Pattern[str]) -> re.Match[str] | None:
        """Return the ETag that If-Match asks for, None where any will do; raise PreconditionFailed."""
        given = self.request.headers.get("If-Match", "*").strip()
        found = etag.fullmatch(given)
        if found is None and given != "*":
            raise PreconditionFailed(f"{given[:80]} is no ETag of this; nothing was done.")
        return found

    @property
    def expected_version(self) -> int | None:
        """The version that If-Match asks for, None where any will do; raise PreconditionFailed."""
        found = self.if_match(_VERSION)
        return None if found is None else int(found[1])

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse who may not and what is not known, before anything is read or done."""
        super().initial(request, *args, **kwargs)
        if self.contract is None:
            raise exceptions.MethodNotAllowed(request.method or "")
        if request.method not in SAFE_METHODS and not self.works_in_read_only:
            require_writable()
        if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise EncodedBody("The body must not be compressed; a directory source takes .gz files.")
        if any("\x00" in name for name in kwargs.values() if isinstance(name, str)):
            raise exceptions.NotFound  # no name holds NUL, and the database cannot be asked for one
        if self.contract.checks_query:
            self.query = read_query(request.query_params, self.contract.query)

    def carry_out(self, act: Callable[[], Response]) -> HttpResponseBase:
        """Return the answer of the handler; where the request carries an Idempotency-Key, call it once only."""
        assert self.contract is not None
        if not self.contract.acts or KEY_HEADER not in self.request.headers:
            return act()

        def answered(renew: Renew) -> StoredAnswer:
            self.renew = renew
            return self._answer(act)

        answer, is_repeated = once(
            self.principal.account,
            self.request.headers[KEY_HEADER],
            self._request_digest(),
            answered,
            rights=self._rights_digest(),
            in_one_transaction=not self.contract.is_streamed,
        )
        response = HttpResponse(answer.body, status=answer.status, content_type=answer.media_type)
        if answer.location is not None:
            response["Location"] = answer.location
        if is_repeated:
            response["Idempotent-Replayed"] = "true"
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add what every answer carries."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response.setdefault("Cache-Control", "no-store")
        return response

    def created(self, shape: Shape, row: Any, name: object) -> Response:
        """Return a new object, whose URL is its list's with `name` behind it."""
        response = shown(shape, row, 201)
        response["Location"] = self.request.build_absolute_uri(f"{name}/")
        return response

    def accepted(self, response: Response, operation_id: int | None) -> Response:
        """Return the answer; where an operation waits for a sign-off, as 202 with its URL: nothing was done."""
        if operation_id is not None:
            response.status_code = 202
            response["Location"] = self.request.build_absolute_uri(reverse("api-operation", args=[operation_id]))
        return response

    def listed(self, shape: Shape, query: Callable[..., Page[Any]], *args: Any, **only: Any) -> Response:
        """Return the page of `query` that the parameters `PAGE` ask for."""
        limit = self.query["limit"] or DEFAULT_LIMIT
        found = query(*args, **only, principal=self.principal, cursor=self.query["cursor"], limit=limit)
        return self.paged(found, shape)

    def whole(self, shape: Shape, rows: Iterable[Any]) -> Response:
        """Return a list that has one page."""
        results = [shape.render(row) for row in rows]
        return Response(
            {"results": results, "next": None, "previous": None, "count": len(results), "count_is_exact": True}
        )

    def paged(self, page: Page[Any], shape: Shape) -> Response:
        """Return a page of a list, with links to its neighbours and how many rows all pages have."""
        total = page.total()
        return Response(
            {
                "results": [shape.render(row) for row in page.results],
                "next": self._link(page.next),
                "previous": self._link(page.previous),
                "count": total.n,
                "count_is_exact": not total.capped,
            }
        )

    def leaving_out(self, patterns: Sequence[str], answer: Response) -> Response:
        """Return the answer with `not_searched`: the patterns of addresses that it leaves out, where there are any."""
        if patterns:
            answer.data["not_searched"] = patterns
        return answer

    def _link(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        query = self.request.query_params.copy()
        query["cursor"] = cursor
        return self.request.build_absolute_uri(f"?{query.urlencode()}")

    def _request_digest(self) -> str:
        assert self.contract is not None
        request = self.request._request  # noqa: SLF001  (the body must be read before REST framework does)
        body = digest_of(file_of(request)) if self.contract.is_streamed else hashlib.sha256(request.body).hexdigest()
        return hashlib.sha256(f"{request.method} {request.get_full_path()} {body}".encode()).hexdigest()

    def _rights_digest(self) -> str:
        rights = (sorted(self.principal.permissions), self.principal.patterns, masks_of(self.principal).rules)
        return hashlib.sha256(repr(rights).encode()).hexdigest()

    def _answer(self, act: Callable[[], Response]) -> StoredAnswer:
        try:
            response = act()
        except Exception as error:
            response = self.handle_exception(error)
        body = b"" if response.data is None else to_json(response.data)
        return StoredAnswer(response.status_code, response.content_type or JSON, body, response.get("Location"))


class IdConverter:
    """A database id in a path."""

    regex = "[0-9]{1,19}"

    def to_python(self, text: str) -> int:
        """Return the number; raise ValueError (no such page) beyond what the database can hold."""
        if (number := int(text)) > MAX_ID:
            raise ValueError(text)
        return number

    def to_url(self, number: int) -> str:
        """Return the digits."""
        return str(number)


register_converter(IdConverter, "id")


def route(pattern: str, view: type[APIView], *, name: str) -> URLPattern:
    """Return the route of a view, under /api/v1/; `<id:…>` in the pattern is a database id."""
    return path(pattern, view.as_view(), name=name)
