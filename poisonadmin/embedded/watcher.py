"""Ends what a supervisor leaves behind when it is killed itself: `python -m poisonadmin.embedded.watcher HOME`.

The supervisor holds the other end of standard input, which the kernel closes when it ends, however it ends.
"""

import os
import signal
import sys
import time
from pathlib import Path

from poisonadmin.embedded.processes import kill, marked

_ROUNDS = 20


def watch(home: Path) -> None:
    """Wait for the end of standard input, then kill the processes of `home` until none is left."""
    for wished in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(wished, signal.SIG_IGN)
    while os.read(sys.stdin.fileno(), 4096):
        pass
    for _ in range(_ROUNDS):
        left = marked(home)
        if not left:
            return
        kill(left)
        time.sleep(0.1)


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
