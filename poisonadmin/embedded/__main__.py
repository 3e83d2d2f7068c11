"""`python -m poisonadmin.embedded up` (or `demo`, or `restore FILE`): what `make up` and its like run."""

import argparse
import os
import sys
from pathlib import Path

from poisonadmin.embedded.bring_up import bring_back, run
from poisonadmin.embedded.environment import read_wishes
from poisonadmin.embedded.plan import DEMO, UP
from poisonadmin.embedded.processes import EmbeddedError

PLANS = {"up": UP, "demo": DEMO}


def main() -> int:
    """Run the command and return its exit status; a failure that we can explain is one line, not a traceback."""
    parser = argparse.ArgumentParser(prog="python -m poisonadmin.embedded", description=__doc__)
    parser.add_argument("command", choices=[*PLANS, "restore"], help="start everything, empty or with the sample")
    parser.add_argument("file", type=Path, nargs="?", help="restore: the backup to bring into a new data directory")
    parser.add_argument("--home", type=Path, help="the data directory; POISONADMIN_HOME by default")
    arguments = parser.parse_args()
    if (arguments.command == "restore") != (arguments.file is not None):
        parser.error("restore needs a file, and nothing else takes one")
    try:
        wishes = read_wishes(os.environ, arguments.home)
        if arguments.file:
            bring_back(wishes, arguments.file)
        else:
            run(wishes, PLANS[arguments.command])
    except EmbeddedError as error:
        sys.stderr.write(f"PoisonAdmin cannot run: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
