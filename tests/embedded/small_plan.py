"""A supervisor of the real PostgreSQL and Valkey, and of small programs in the place of PoisonAdmin's.

`python -m tests.embedded.small_plan`, with POISONADMIN_HOME and POISONADMIN_PORT;
BROKEN_MIGRATION makes `migrate` fail, STUBBORN the last child hard to end.
"""

import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from poisonadmin.embedded.bring_up import run
from poisonadmin.embedded.environment import read_wishes
from poisonadmin.embedded.plan import Plan
from poisonadmin.embedded.processes import ChildSpec, EmbeddedError, RestartRule

WEB = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
# Ignores SIGTERM, and has a child in a session of its own and a grandchild whose parent has gone.
STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "1000"], start_new_session=True)
subprocess.run(["sh", "-c", "setsid sleep 1000 & exit"])
print("last is up")
time.sleep(1000)
"""
POLITE = """
import time
print("last is up")
time.sleep(1000)
"""


def _python(name: str, environment: Mapping[str, str], program: str, *arguments: str) -> ChildSpec:
    command = [sys.executable, "-c", program, *arguments]
    return ChildSpec(name, command, environment, Path("/"), restart=RestartRule.ON_FAILURE)


def _unless_blocked(home: Path) -> None:
    if (home / "blocked").exists():
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "a file of it")


def _last(environment: Mapping[str, str], home: Path) -> ChildSpec:
    program = STUBBORN if "STUBBORN" in environment else POLITE
    return replace(_python("last", environment, program), clear_the_way=partial(_unless_blocked, home))


PLAN = Plan(
    before=lambda environment: [
        _python("migrate", environment, "import os, sys; sys.exit(3 if 'BROKEN_MIGRATION' in os.environ else 0)"),
    ],
    bootstrap=lambda environment: _python("bootstrap", environment, "print('password: as printed once')"),
    web=lambda environment, port: _python("web", environment, WEB, str(port)),
    after=lambda environment, home: [_last(environment, home)],
)


if __name__ == "__main__":
    try:
        run(read_wishes(os.environ), PLAN)
    except EmbeddedError as error:
        sys.exit(f"PoisonAdmin cannot run: {error}")
