"""What is told of an exception that a handler raised."""

import os
import traceback
from typing import Any

MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 48 * 1024
MAX_CAUSES = 20
MAX_FRAMES = 20


def failure_of(error: BaseException, roots: list[str]) -> dict[str, Any]:
    """Return what is told of an exception: class, message, root cause's class, application frames, stack."""
    chain = [error]
    while len(chain) < MAX_CAUSES:
        last = chain[-1]
        cause = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if cause is None or cause in chain:
            break
        chain.append(cause)
    frames = next((found for found in (_frames(link, roots) for link in reversed(chain)) if found), [])
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if len(stack) > MAX_STACK_CHARS:
        stack = stack[: MAX_STACK_CHARS // 3] + "\n[…]\n" + stack[-MAX_STACK_CHARS // 3 * 2 :]
    told = {"class": _name(error), "message": _words(error), "frames": frames, "stack": stack}
    return told if len(chain) == 1 else {**told, "cause": _name(chain[-1])}


def _frames(error: BaseException, roots: list[str]) -> list[str]:
    found = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        root = next((root for root in roots if path.startswith(root + os.sep)), None)
        if root is not None:
            found.append(f"{os.path.relpath(path, root)}:{frame.f_code.co_name}")
    return found[::-1][:MAX_FRAMES]


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _words(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE_CHARS]
    except Exception:
        return "(its message cannot be read)"
