"""The sandbox's side: reads messages, calls the handler, writes each result into the journal.

Started as `python -I -S child.py …`: the standard library is its whole path, to which the handler path is added. It
trusts nothing that a handler may have touched: not the descriptors, not the process id, not `sys.stdout`.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import io
import json
import marshal
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

INPUT_BYTES = 256 * 1024
MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 48 * 1024
MAX_CAUSES = 20
MAX_FRAMES = 20
MAX_WORDS = 4096
RING_FULL_SECONDS = 0.001
# Code, libraries and stacks are not what `memory_mb` is about; it limits what the handler allocates.
ADDRESS_SPACE_MB = 2048
MAX_FILES = 256
MAX_FILE_MB = 1024
MAX_PROCESSES = 1024  # and threads, of all sandboxes of a user who is not the worker's
RLIMIT_LOCKS = 10  # see handler/children.py
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
HEAD = struct.Struct("=IqI")  # bytes of the rest, message, attempt; the parent writes the same


class InputLost(Exception):
    """Raised when the descriptor with the messages is no longer ours."""


class Input:
    """The messages from the parent. A handler may have closed the descriptor, or opened another under its number."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._identity = _who(descriptor)
        self._buffer = b""
        self._position = 0

    def take(self, size: int) -> bytes | None:
        """Return the next bytes, None at the end of the input."""
        while len(self._buffer) - self._position < size:
            piece = self._read(max(INPUT_BYTES, size))
            if not piece:
                return None
            self._buffer = self._buffer[self._position :] + piece
            self._position = 0
        start = self._position
        self._position = start + size
        return self._buffer[start : self._position]

    def _read(self, size: int) -> bytes:
        try:
            if _who(self._socket.fileno()) != self._identity:
                raise InputLost
            self._ring()
            return self._socket.recv(size)
        except OSError as error:
            raise InputLost from error

    def _ring(self) -> None:
        """Tell the parent that there is nothing left to do; it checks by itself too, only later."""
        with contextlib.suppress(BlockingIOError):  # it has not heard the last one yet
            self._socket.send(b"\0", socket.MSG_DONTWAIT)


class Begun:
    """Counts the messages begun where the parent reads it, and where no handler takes it back: in the kernel."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _who(descriptor)

    def count(self) -> None:
        """Count one more. A handler may have closed the descriptor too."""
        try:
            if _who(self._descriptor) != self._identity:
                raise InputLost
            os.eventfd_write(self._descriptor, 1)
        except OSError as error:
            raise InputLost from error


def _who(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class Printed(io.TextIOBase):
    """Takes the place of `sys.stdout` and `sys.stderr`: what is printed goes into the journal."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self._pid = os.getpid()
        self.buffer = PrintedBytes(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.write_bytes(text.encode("utf-8", "replace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Keep the bytes, unless a process that a handler has forked prints them."""
        if os.getpid() == self._pid:
            self._journal.note_output(data)


class PrintedBytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, printed: Printed) -> None:
        self._printed = printed

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._printed.write_bytes(bytes(data))
        return len(data)


def _failure_of(error: BaseException, roots: list[str]) -> dict[str, Any]:
    """Return the description of an exception: class, message, root cause's class, application frames, stack."""
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
    details = {"class": _name(error), "message": _words(error), "frames": frames, "stack": stack}
    return details if len(chain) == 1 else {**details, "cause": _name(chain[-1])}


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


def _load_file(name: str, path: str) -> ModuleType:
    """Import one file under a name of its own, without making its folder importable."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Child:
    """One sandbox, from its start to its end."""

    def __init__(self, plan: dict[str, Any], here: str) -> None:
        modules = _load_file("_poisonadmin_page", plan["page_module"])
        self._Field, self._Kind, self._Why, self._Phase = modules.HeaderField, modules.Kind, modules.Why, modules.Phase
        self._max_record = modules.MAX_RECORD_BYTES
        self._answers = _load_file("poisonadmin_handler", f"{here}/answers.py")
        self._input = Input(plan["input"])
        self._begun = Begun(plan["begun"])
        self._journal = modules.Journal(mmap.mmap(plan["journal"], modules.JOURNAL_BYTES))
        self._roots = plan["roots"]
        self._pid = os.getpid()
        self._journal.set(self._Field.PID, self._pid)

    def run(self, callable_name: str) -> NoReturn:
        """Load the handler, then handle messages until there are no more; never returns."""
        sys.stdout = sys.stderr = Printed(self._journal)
        handle = self._handler(callable_name)
        gc.collect()
        gc.freeze()
        self._journal.set(self._Field.PHASE, self._Phase.READY)
        while True:
            try:
                message = self._next()
                if message is None:
                    self._exit(self._Why.NOTHING_MORE)
                if time.monotonic() >= self._journal.get_float(self._Field.DEADLINE):
                    self._exit(self._Why.DEADLINE)
                self._one(handle, *message)
            except InputLost:
                self._exit(self._Why.INPUT_LOST)

    def _next(self) -> tuple[tuple[Any, ...], bytes] | None:
        head = self._input.take(HEAD.size)
        if head is None:
            return None
        size, message_id, attempt_number = HEAD.unpack(head)
        try:
            frame = self._input.take(size)
            return None if frame is None else marshal.loads(frame)  # noqa: S302  (our own parent wrote it)
        except MemoryError:
            # It is this message that is too large for the sandbox, and no other is to suffer for it.
            self._begin(message_id, attempt_number)
            self._die(self._Why.OUT_OF_MEMORY)

    def _begin(self, message_id: int, attempt_number: int) -> None:
        self._begun.count()
        self._journal.begin(message_id, attempt_number, now=time.monotonic(), cpu=time.process_time())

    def _handler(self, name: str) -> Callable[[Any], Any]:
        self._journal.set(self._Field.PHASE, self._Phase.LOADING)
        sys.path[:0] = self._roots
        module, _, function = name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in function.split("."):
                found = getattr(found, part)
            if not callable(found):
                raise TypeError(f"{name} is not a function but {type(found).__name__}")
        except BaseException as error:
            self._leave_if_forked()
            self._put(self._Kind.NOT_LOADED, _failure_of(error, self._roots))
            self._exit(self._Why.NOT_LOADED)
        return found  # type: ignore[no-any-return]

    def _one(self, handle: Callable[[Any], Any], message: tuple[Any, ...], headers: bytes) -> None:
        given = self._answers.HandlerMessage(message[0], json.loads(headers), *message[1:])
        self._begin(given.id, given.attempt)
        fixed = self._journal.fixed()
        try:
            answer = handle(given)
        except MemoryError:
            self._die(self._Why.OUT_OF_MEMORY)
        except SystemExit as error:
            self._leave_if_forked()
            code = error.code
            self._journal.set(self._Field.EXIT_CODE, code & 0xFF if isinstance(code, int) else int(code is not None))
            self._die(self._Why.SYSTEM_EXIT)
        except Exception as error:
            self._leave_if_forked()
            result: tuple[Any, dict[str, Any] | None] = self._Kind.FAILED, _failure_of(error, self._roots)
        except BaseException:
            self._die(self._Why.INTERRUPTED)
        else:
            self._leave_if_forked()
            result = self._described(answer)
        if self._journal.fixed() != fixed:
            self._die(self._Why.JOURNAL_DAMAGED)
        self._put(*result)

    def _described(self, answer: Any) -> tuple[Any, dict[str, Any] | None]:
        answers, kinds = self._answers, self._Kind
        if isinstance(answer, answers.Discard):
            return kinds.DISCARDED, {"why": str(answer.why)[:MAX_WORDS]}
        if isinstance(answer, answers.MoveTo):
            why = str(answer.why)[:MAX_WORDS]
            return kinds.MOVED, {"address": str(answer.address)[:MAX_WORDS], "why": why}
        if isinstance(answer, answers.Rollback):
            return kinds.ROLLED_BACK, {"why": str(answer.why)[:MAX_WORDS]}
        if isinstance(answer, answers.EndConversation):
            error, code = str(answer.error)[:MAX_WORDS], int(answer.code)
            return kinds.CONVERSATION_ENDED, {"why": error, "code": code} if error or code else {}
        if hasattr(answer, "__await__"):
            close = getattr(answer, "close", None)
            if close is not None:
                close()
            words = "the handler is asynchronous: nothing was run; write it without async"
            return kinds.FAILED, {"class": "TypeError", "message": words}
        return kinds.DELIVERED, None

    def _put(self, kind: Any, details: dict[str, Any] | None) -> None:
        printed = self._journal.output()
        if printed:
            details = {**(details or {}), "output": printed.decode("latin-1")}
        while details and details.get("stack") and len(json.dumps(details)) > self._max_record:
            details["stack"] = details["stack"][-len(details["stack"]) // 2 :]
        while not self._journal.put(kind, details, now=time.monotonic()):
            time.sleep(RING_FULL_SECONDS)

    def _leave_if_forked(self) -> None:
        """End a process that a handler forked and let return: what follows is its parent's business."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _die(self, why: Any) -> NoReturn:
        """End while the turn stands: the parent takes it for a crash."""
        self._leave_if_forked()
        self._exit(why)

    def _exit(self, why: Any) -> NoReturn:
        self._journal.set(self._Field.WHY, why)
        os._exit(int(why))


def limit(memory_mb: int, mark: int) -> None:
    """Limit what this process may allocate, open and write, let it leave no core file, and mark what it starts."""
    megabyte = 1024 * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * megabyte, memory_mb * megabyte))
    space = (memory_mb + ADDRESS_SPACE_MB) * megabyte
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, most in ((resource.RLIMIT_NOFILE, MAX_FILES), (resource.RLIMIT_FSIZE, MAX_FILE_MB * megabyte)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard),) * 2)
    resource.setrlimit(RLIMIT_LOCKS, (mark, mark))


def limit_user() -> None:
    """Limit how many processes the sandboxes' own user may have, and let no program make it another user again.

    The kernel counts by user: for a user who has other processes too the number would mean nothing.
    """
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = MAX_PROCESSES if hard == resource.RLIM_INFINITY else min(MAX_PROCESSES, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _end_with(parent: int) -> None:
    """Have the kernel end this process when the thread that started it ends; at once if that has happened already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main() -> NoReturn:
    """Run as a sandbox; the plan is the only argument, as JSON."""
    plan = json.loads(sys.argv[1])
    _end_with(plan["parent"])
    limit(plan["memory_mb"], plan["mark"])
    if plan["is_other_user"]:
        limit_user()
    faulthandler.enable(file=2)
    here = __file__.rpartition("/")[0]
    sys.argv[:] = [plan["callable"]]
    Child(plan, here).run(plan["callable"])


if __name__ == "__main__":
    main()
