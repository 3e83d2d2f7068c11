"""One failure group: its counts, an example with its stack, its latest messages."""

from dataclasses import dataclass
from itertools import groupby
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.messages.domain.stacks import MAX_STACK_CHARS, first_application_frame
from poisonadmin.messages.queries.detail import attempts
from poisonadmin.messages.queries.failures import FailureFilter, get_group, list_failures
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.lists import list_messages
from poisonadmin.web.pages.sanitising import visible
from poisonadmin.web.pages.views import page, require_known

MAX_LINES = 400
SHOWN_MESSAGES = 10
SHOWN_FAILURES = 10


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


@page()
def group(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Render one group: counts, trend, an example with its stack, its latest messages and failures."""
    require_known(request)
    found = get_group(group_id, principal=principal)
    latest = list_messages(parse_filter({"group": [str(group_id)]}), principal=principal, limit=SHOWN_MESSAGES)
    failures = list_failures(FailureFilter(groups=(group_id,)), principal=principal, limit=SHOWN_FAILURES)
    example = next(
        (
            attempt
            for failure in failures.results[:1]
            for attempt in attempts(failure.message_id, principal=principal).results
            if attempt.attempt_number == failure.attempt_number
        ),
        None,
    )
    context = {
        "group": found,
        "counts": found.counts,
        "narrowed": urlencode({"group": group_id}),
        "undecided_query": urlencode({"state": "NDLV", "group": group_id}),
        "peak": max(found.trend, default=0),
        "rows": latest.results,
        "failures": failures.results,
        "example": example,
        "example_id": failures.results[0].message_id if failures.results else None,
        "frames": folded(example.stack) if example and example.stack else [],
    }
    return render(request, "messages/group.html", context)
