"""The page docs/api.md, from the routes, their contracts and the errors.

`DJANGO_SETTINGS_MODULE=tests.typing_settings python -m poisonadmin.web.api.reference > docs/api.md` writes it.
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

`DJANGO_SETTINGS_MODULE=tests.typing_settings python -m poisonadmin.web.api.reference > docs/api.md` writes this page.
Change the texts there, and the docstrings of the views and errors.

The API is under `/api/v1/`: JSON in snake_case, times in RFC 3339 UTC, ids as strings.
The OpenAPI document is at `/api/v1/schema/`, and a page to try it out is at `/api/v1/docs/`.

- **Authentication**: `Authorization: Bearer pa_…` (`manage.py token create`), or the dashboard's session with its CSRF
  token.
  A token has the permissions of its scopes, never more than its owner, and only within the address patterns of both.
  Everything outside the caller's scope is *not found*: 404, or an empty list.
- **Lists**: `{"results": [], "next": …, "previous": …, "count": …, "count_is_exact": …}`; follow the links.
  `count` is of all pages; where `count_is_exact` is false there are at least so many.
  `limit` is the number of results on a page: 1 to 500, 50 where it is left out.
  The lists of policies, rules, restart jobs and alert rules have one page and take no `limit`.
  A repeated filter lists alternatives (`state=NDLV&state=FAIL`); different filters must all hold.
  An unknown or empty parameter is a 400, so a typo never means "everything".
- **Search**: `q` takes the grammar of the search box:
  `address:orders.# state:NDLV error:"Timeout" attempts:>3 failed:24h !reason:returned customer-77`.
  A free word is the beginning of a message id, a conversation id or a business key, or a part of an address or an
  error.
  `received:24h` and `failed:24h` are spans back from now; `since:24h` is the same as `received:24h`.
  `error` is any part of the class, title or cause of the failure group, or a phrase of the latest failure's message.
  A phrase is compared word by word, its last word by the beginning; case and punctuation do not count.
  Only the first 4,000 characters of a message are searched.
  `original_address` is where a message failed that was moved since.
  `consumer_version`, or `version:` in the box, is what its consumer stated with its latest failure.
  `address` also takes a dead-letter queue, by its name or as `DLA::DLQ.orders`.
  A search that reads for more than ten seconds is stopped (`query_too_expensive`).
- **Idempotency**: send an `Idempotency-Key` with a POST that acts.
  For a day, the same key with the same request gets the same answer (`Idempotent-Replayed: true`) and has no effect.
  A key belongs to the token that it came with, or to the user of the session.
  A batch is committed as it goes.
  After a crash, send the whole batch again; its lines with a known `message_id` are then duplicates.
- **Stale decisions**: send the `ETag` of what you read as `If-Match`; the answer is 412 when it has changed since.
- **Errors**: `application/problem+json` (RFC 9457) with a stable `code`, a `detail` for people and the `request_id`.
  `errors` names single wrong fields.
- **Streams**: `/poison-list/events/` is `text/event-stream`; see [the poison list](poison-list.md).
- **Uploads**: a payload has at most 64 MiB, `POST /messages/` at most 96 MiB of JSON, a batch at most 1 GiB.
  A long body is read after its sender was checked.
  A sender uploads at most 4 bodies of more than 2.5 MB at once;
  a fifth gets 429 with `Retry-After`.
  A body may pause for 15 s.
  A batch is read as a stream: valid lines are kept, invalid ones are set aside with their number and reason.
  Compressed bodies are refused.
  A payload longer than its address allows (`max_payload_bytes`) is accepted nevertheless: 201, NDLV, `oversized`.
"""

PROBES = """\
## Probes

These are at the root, for machines:

- `/healthz`: the process answers.
- `/readyz`: the database has this version's tables, and the queue is there.
- `/metrics`: Prometheus, for a token or session with `read` on all addresses, or for a direct caller on this machine.
"""

# Codes that are no class of their own, with what they mean.
MORE_CODES: dict[str, tuple[int, str]] = {
    "unknown_parameter": (400, "a query parameter that does not exist"),
    "needs_search": (400, "words about payloads, which only a search job answers: `POST /searches/`"),
    "invalid_parameter": (400, "a query parameter with an invalid value"),
    "invalid_request": (400, "fields of the body are missing or invalid; `errors` names them"),
    "malformed_request": (400, "the request cannot be read"),
    "body_broken_off": (400, "the body ended too early"),
    "not_authenticated": (401, "nobody is logged in and there is no token"),
    "authentication_failed": (401, "the token is unknown, expired or revoked"),
    "csrf_failed": (403, "a session without its CSRF token"),
    "method_not_allowed": (405, "the path has no such method"),
    "not_acceptable": (406, "the caller accepts no JSON"),
    "unsupported_media_type": (415, "the body is of another type than the path takes"),
    "internal_error": (500, "a fault of PoisonAdmin; it is logged under the request id"),
    "read_only": (503, "the database takes no writes at present; nothing was changed"),
    "unavailable": (503, "the database does not answer; nothing was changed"),
    "not_an_object": (400, "a message is not a JSON object"),
    "unknown_field": (400, "a message has a field that does not exist"),
    "missing_field": (400, "a message has no address or no payload"),
    "invalid_message_id": (400, "a message id that is empty, too long or unprintable"),
    "invalid_conversation_id": (400, "a conversation id that is empty, too long or unprintable"),
    "invalid_bookmark": (400, "a bookmark that is empty, too long or unprintable"),
    "invalid_poison_source": (400, "a poison source that is empty, too long or unprintable"),
    "invalid_name": (400, "a consumer's name that is empty, too long or unprintable"),
    "invalid_content_type": (400, "a content type that is empty, too long, unprintable or not ASCII"),
    "invalid_headers": (400, "headers that are not an object of texts"),
    "headers_too_large": (400, "more than 100 headers or 64 KiB of them"),
    "invalid_time": (400, "a time that is not RFC 3339 with its offset"),
    "payload_conflict": (400, "both payload and payload_base64"),
    "invalid_base64": (400, "payload_base64 is not base64"),
    "payload_too_large": (413, "a payload of more than 64 MiB"),
    "line_too_long": (413, "a line of more than 128 MiB"),
    "invalid_dead_letter": (400, "a dead_letter that is not as described"),
    "invalid_utf8": (400, "bytes that are not UTF-8"),
    "invalid_json": (400, "text that is not JSON"),
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
    for error in _error_classes():
        when = re.sub(r"^Raised (when|while|where) ", "", " ".join((error.__doc__ or "").split("\n\n")[0].split()))
        if "code" in vars(error):
            found.setdefault(error.code, (error.status, when.split(";")[0].rstrip(".").replace("|", "/")))
    return found


def _error_classes() -> list[type[PoisonAdminError]]:
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
