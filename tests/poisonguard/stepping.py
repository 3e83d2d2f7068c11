"""A consumer that is killed with SIGKILL at the n-th line that the guard runs, for one n after another.

Reads a JSON object with `guard` (what a guard is made with; its source gets the number behind it), `scenario` and
`stride`; prints a JSON object a step, up to the first that gets to its end. Each step runs in a forked child of a
process that has no threads, and is followed by the next start of a guard in another one.
"""

import itertools
import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from poisonguard import guard as guard_module
from poisonguard.guard import Guard

GUARD = os.path.dirname(guard_module.__file__) + os.sep


class Countdown:
    """Kills this process at the n-th line of the guard, in whichever thread it runs."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def begin(self) -> None:
        """Count from now on."""
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def end(self) -> None:
        """Count no more."""
        threading.settrace(None)  # type: ignore[arg-type]
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Follow the guard's own code only."""
        name = frame.f_code.co_filename
        if not name.startswith(GUARD):
            return None
        if event == "line":
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace


def fails(_: object) -> None:
    """Fail."""
    raise ValueError("it cannot be read")


def dies(_: object) -> None:
    """Die, as if by the message."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail_once(guard: Guard, countdown: Countdown) -> None:
    """Handle a message that fails, and end; the countdown runs while it is handled."""
    guard.start()
    countdown.begin()
    try:
        guard.handle("1", "body", fails)
    except ValueError:
        countdown.end()
    guard.close(10)


def die_once(guard: Guard, countdown: Countdown) -> None:
    """Die of a message."""
    guard.start()
    guard.handle("1", "body", dies)


def recover(guard: Guard, countdown: Countdown) -> None:
    """Start where another has died and end; the countdown runs all the time."""
    countdown.begin()
    guard.start()
    guard.close(10)
    countdown.end()


# What runs before the step that is counted, and that step.
SCENARIOS = {"fail": ((), fail_once), "recover": ((die_once,), recover)}


def in_child(options: dict[str, Any], run: Any, steps: int) -> bool:
    """Run in a forked child; return whether it got to its end."""
    pid = os.fork()
    if not pid:
        os.chdir("/")
        run(Guard(**options), Countdown(steps))
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def main() -> None:
    """Go through the steps."""
    asked = json.loads(sys.argv[1])
    before, counted = SCENARIOS[asked["scenario"]]
    for step in itertools.count(1, asked["stride"]):
        options = asked["guard"] | {"source": f"{asked['guard']['source']}.{step}"}
        options["journal_dir"] = str(Path(options["journal_dir"]) / str(step))
        for run in before:
            in_child(options, run, 0)
        got_to_its_end = in_child(options, counted, step)
        recovered = in_child(options, recover, 0)
        # A directory that never came to be is removed by a start that comes an hour later.
        files = [path for path in Path(options["journal_dir"]).rglob("*") if path.is_file()]
        left = [str(path) for path in files if not path.parent.name.startswith(".new-")]
        print(json.dumps({"step": step, "end": got_to_its_end, "recovered": recovered, "left": left}), flush=True)
        if got_to_its_end:
            break


if __name__ == "__main__":
    main()
