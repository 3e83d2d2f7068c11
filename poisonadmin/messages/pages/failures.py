"""The failure log across messages, and stack traces with what is foreign folded."""

from dataclasses import dataclass
from itertools import groupby

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.filter_values import address_or_pattern, checked_text, moment
from poisonadmin.messages.domain.stacks import MAX_STACK_CHARS, first_application_frame
from poisonadmin.messages.queries.failures import FailureFilter, list_failures
from poisonadmin.web.pages.sanitising import visible
from poisonadmin.web.pages.views import page, pager

MAX_LINES = 400


@dataclass(frozen=True)
class StackPart:
    """Lines that stand together. `kind`: own (a frame of the application), foreign (folded), text (no frame)."""

    kind: str
    lines: tuple[str, ...]


def folded(stack: str) -> list[StackPart]:
    """Return the trace in parts, at most 400 lines of it."""
    lines = visible(stack[:MAX_STACK_CHARS]).splitlines()[:MAX_LINES]
    kinds = _kinds(lines)
    parts = []
    for kind, run in groupby(zip(kinds, lines, strict=True), key=lambda pair: pair[0]):
        parts.append(StackPart(kind, tuple(line for _, line in run)))
    return parts


def _kinds(lines: list[str]) -> list[str]:
    kinds: list[str] = []
    for line in lines:
        if _is_frame(line):
            kinds.append("own" if first_application_frame(line) else "foreign")
        elif kinds and line.startswith("    ") and kinds[-1] != "text":
            # The source line that Python prints below a frame.
            kinds.append(kinds[-1])
        else:
            kinds.append("text")
    return kinds


def _is_frame(line: str) -> bool:
    start = line.lstrip()
    return start.startswith(("at ", 'File "')) or (start.startswith("... ") and start.endswith("more"))


@page(filters=("address", "error", "destination", "failed_after", "failed_before"))
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the log, newest first."""
    given = request.GET
    only = FailureFilter(
        addresses=tuple(address_or_pattern("address", text) for text in given.getlist("address")),
        errors=tuple(checked_text("error", text) for text in given.getlist("error")),
        destinations=tuple(checked_text("destination", text) for text in given.getlist("destination")),
        failed_after=moment("failed_after", given["failed_after"]) if "failed_after" in given else None,
        failed_before=moment("failed_before", given["failed_before"]) if "failed_before" in given else None,
    )
    found = list_failures(only, principal=principal, cursor=given.get("cursor"))
    filtered = any(name != "cursor" for name in given)
    context = {"rows": found.results, "pager": pager(request, found), "values": given.dict(), "filtered": filtered}
    return render(request, "messages/failures.html", context)
