"""The page docs/api.md, from the routes, their contracts and the errors.

`DJANGO_SETTINGS_MODULE=poisonadmin.settings python -m poisonadmin.web.api.reference > docs/api.md` writes it.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import poisonadmin
from poisonadmin.core.domain.errors import PoisonAdminError

ROLES = ("domain", "queries", "commands", "api")

INTRODUCTION = """\
# The API, version 1

Written by `python -m poisonadmin.web.api.reference`; change it there.

Under `/api/v1/`, JSON in snake_case, times in RFC 3339 UTC, ids as strings. The OpenAPI document is at
`/api/v1/schema/`, a page to try it out at `/api/v1/docs/`.

- **Who calls**: `Authorization: Bearer pa_…` (`manage.py token create`), or the dashboard's session with its CSRF
  token. A token may do what its scopes say, never more than its owner, and only within the address patterns of both.
  What is out of scope does not exist: 404, or an empty list.
- **Lists**: `{"results": [], "next": …, "previous": …}`; follow the links. `limit` goes up to 500. Filters that are
  repeated are alternatives (`state=NDLV&state=FAIL`), different ones must all hold. A parameter that does not exist, or
  is empty, is a 400: a typo never means "everything". `q` takes the search box's words:
  `address:orders.# state:NDLV error:"Timeout" attempts:>3 since:24h !reason:returned customer-77`. A free word begins a
  message or conversation id or a business key, or is part of an address or an error. `address` also takes a queue of
  dead letters, by its name or as `DLA::DLQ.orders`. A search that reads for more than ten seconds is
  stopped (`query_too_expensive`).
- **Twice is once**: `Idempotency-Key` on a POST that acts. The same key with the same request is answered alike for a
  day (`Idempotent-Replayed: true`) and not carried out again. A batch is committed as it goes: what a crash cut off is
  taken in by sending it again, and lines with a `message_id` are then duplicates.
- **No stale decisions**: the `ETag` of what was read goes into `If-Match`; 412 when it has changed since.
- **Errors**: `application/problem+json` (RFC 9457) with a stable `code`, a `detail` for people, the `request_id`, and
  `errors` where single fields are wrong.
- **Streams**: `/poison-list/events/` is `text/event-stream`; see [the poison list](poison-list.md).
- **Uploads**: a payload has at most 64 MiB; `POST /messages/` at most 96 MiB of JSON, a batch at most 1 GiB. A batch is
  read as a stream: good lines are kept, bad ones set aside with their number and reason. Bodies are not to be
  compressed. A payload longer than its address takes (`max_payload_bytes`) is taken in all the same: 201, NDLV,
  `oversized`.
"""

PROBES = """\
## Probes

At the root, for machines: `/healthz` (the process answers), `/readyz` (the database is there with this version's
tables, and the queue), `/metrics` (Prometheus; for a token or session with `read` on all addresses, or a caller on this
machine that no proxy speaks for).
"""

# Codes that are no class of their own, with what they mean.
MORE_CODES: dict[str, tuple[int, str]] = {
    "unknown_parameter": (400, "a query parameter that does not exist"),
    "invalid_parameter": (400, "a query parameter whose value means nothing"),
    "invalid_request": (400, "fields of the body are missing or wrong; `errors` names them"),
    "malformed_request": (400, "the request cannot be read"),
    "body_broken_off": (400, "the body ended too early"),
    "not_authenticated": (401, "nobody is logged in and there is no token"),
    "authentication_failed": (401, "the token is unknown, expired or revoked"),
    "csrf_failed": (403, "a session without its CSRF token"),
    "method_not_allowed": (405, "the path has no such method"),
    "not_acceptable": (406, "something other than JSON is asked for"),
    "unsupported_media_type": (415, "the body is of another type than the path takes"),
    "internal_error": (500, "a fault of ours; it is logged under the request id"),
    "read_only": (503, "the database takes no writes at present; nothing was changed"),
    "unavailable": (503, "the database does not answer; nothing was changed"),
    "not_an_object": (400, "a message is no JSON object"),
    "unknown_field": (400, "a message has a field that does not exist"),
    "missing_field": (400, "a message has no address or no payload"),
    "invalid_message_id": (400, "a message id that is empty, too long or unprintable"),
    "invalid_conversation_id": (400, "the same for a conversation id"),
    "invalid_bookmark": (400, "the same for a bookmark"),
    "invalid_poison_source": (400, "the same for a poison source"),
    "invalid_name": (400, "the same for a consumer's name"),
    "invalid_content_type": (400, "the same for a content type, or one outside ASCII"),
    "invalid_headers": (400, "headers that are no object of texts"),
    "headers_too_large": (400, "more than 100 headers or 64 KiB of them"),
    "invalid_time": (400, "a time that is not RFC 3339 with its offset"),
    "payload_conflict": (400, "both payload and payload_base64"),
    "invalid_base64": (400, "payload_base64 is not base64"),
    "payload_too_large": (413, "a payload of more than 64 MiB"),
    "line_too_long": (413, "a line of more than 128 MiB"),
    "invalid_dead_letter": (400, "a dead_letter that is not as described"),
    "invalid_utf8": (400, "bytes that are no UTF-8"),
    "invalid_json": (400, "text that is no JSON"),
    "invalid_unicode": (400, "a lone surrogate or NUL where no text can have one"),
    "duplicate_key": (400, "a key that is twice in one object"),
    "nesting_too_deep": (400, "JSON nested more than 100 deep"),
    "invalid_number": (400, "NaN, or a number that parsing would change"),
}


def page() -> str:
    """Return docs/api.md."""
    operations = [f"| `{method} {path}` | `{needs}` | {what} |" for method, path, needs, what in _operations()]
    codes = [f"| `{code}` | {status} | {when} |" for code, (status, when) in sorted(error_codes().items())]
    return "\n".join(
        [
            INTRODUCTION,
            "## Operations",
            "",
            "| | permission | |",
            "|---|---|---|",
            *operations,
            "",
            PROBES,
            "## Error codes",
            "",
            "| code | status | when |",
            "|---|---|---|",
            *codes,
            "",
        ]
    )


def error_codes() -> dict[str, tuple[int, str]]:
    """Return code -> (status, when) of all problems that the API answers with."""
    found = dict(MORE_CODES)
    for error in error_classes():
        when = re.sub(r"^Raised (when|while|where) ", "", " ".join((error.__doc__ or "").split("\n\n")[0].split()))
        if "code" in vars(error):
            found.setdefault(error.code, (error.status, when.split(";")[0].rstrip(".").replace("|", "/")))
    return found


def error_classes() -> list[type[PoisonAdminError]]:
    """Return the classes of all errors that the API may answer with, whether or not they were imported already."""
    for module in pkgutil.walk_packages(poisonadmin.__path__, "poisonadmin."):
        if _has_role(module.name):
            importlib.import_module(module.name)
    return list(_subclasses(PoisonAdminError))


def _subclasses(kind: type[PoisonAdminError]) -> Iterator[type[PoisonAdminError]]:
    for subclass in kind.__subclasses__():
        if _has_role(subclass.__module__):
            yield subclass
            yield from _subclasses(subclass)


def _has_role(module: str) -> bool:
    return re.match(rf"poisonadmin\.\w+\.({'|'.join(ROLES)})(\.|$)", module) is not None


def _operations() -> Iterator[tuple[str, str, str, str]]:
    from poisonadmin.web.api.contract import contract_of
    from poisonadmin.web.api.routes import api_routes

    for pattern in api_routes():
        view: Any = getattr(pattern.callback, "cls", None)
        for method in getattr(view, "http_method_names", ()):
            contract = contract_of(view, method)
            if contract is None or method == "head":
                continue
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
            what = (getattr(view, method).__doc__ or "").split("\n\n")[0]
            yield method.upper(), f"/{path}", contract.needs, " ".join(what.split()).replace("|", "/")


if __name__ == "__main__":
    import django

    django.setup()
    print(page(), end="")  # noqa: T201
