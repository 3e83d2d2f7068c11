"""A consumer under the guard, which does what it is told on its standard input and says what came of it.

Its only argument is a JSON object with what the guard is made with. Each line is one command: `start`; `handle
<bookmark> <how>`; `fork <bookmark> <how>`, which a forked child handles; `wait <bookmark>` until it is listed; `free
<bookmark>` until it is not; `close`.
"""

import json
import os
import signal
import sys
import time

from poisonguard import reporter
from poisonguard.errors import Undecided
from poisonguard.guard import SKIPPED, Guard

# Tests wait for what a heartbeat tells, and for what it takes over from dead children.
reporter.HEARTBEAT_SECONDS = 0.5


def handler(payload: str, guard: Guard) -> str:
    """Do what the payload says."""
    if payload == "fail":
        raise ValueError("it cannot be read")
    if payload == "exit":
        sys.exit(3)
    if payload == "os_exit":
        os._exit(3)
    if payload == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if payload == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if payload == "abort":
        os.abort()
    if payload == "interrupt":
        raise KeyboardInterrupt
    if payload == "hang":
        say("handling")
        time.sleep(600)
    if payload == "fork_and_die":
        if not os.fork():
            return "handled by the child"
        os.kill(os.getpid(), signal.SIGKILL)
    if payload == "close":
        guard.close()
    if payload == "close_and_exit":
        guard.close()
        sys.exit(3)
    return "handled"


def obey(guard: Guard, line: str) -> str:
    """Carry out one command and return the answer."""
    command, _, rest = line.strip().partition(" ")
    bookmark, _, how = rest.partition(" ")
    if command == "start":
        guard.start(30)
        return "started"
    if command in ("wait", "free"):
        while guard.is_listed(bookmark) != (command == "wait"):
            time.sleep(0.001)
        return f"{time.time()}"
    if command == "close":
        guard.close()
        return "closed"
    if command == "fork":
        return forked(guard, f"handle {rest}")
    try:
        answer = guard.handle(bookmark, how, handler, guard)
    except (ValueError, Undecided, KeyboardInterrupt) as error:
        return f"{type(error).__name__} {error}".strip()
    return "skipped" if answer is SKIPPED else str(answer)


def forked(guard: Guard, line: str) -> str:
    """Let a forked child carry out the command, and return its answer; "died" when it gave none."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writer, obey(guard, line).encode())
        guard.close()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said or "died"


def say(answer: str) -> None:
    """Say it at once."""
    print(answer, flush=True)


if __name__ == "__main__":
    the_guard = Guard(**json.loads(sys.argv[1]))
    own_pid = os.getpid()
    for told in sys.stdin:
        came_of_it = obey(the_guard, told)
        if os.getpid() != own_pid:
            os._exit(0)
        say(came_of_it)
