"""The failure log across messages, and stack traces with what is foreign folded."""

from dataclasses import dataclass
from itertools import groupby

from poisonadmin.groups.domain.stacks import MAX_STACK_CHARS, first_application_frame
from poisonadmin.web.pages.sanitising import visible

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
