"""What Spark's forks run."""

import subprocess
import sys

_CODE = """
from workers.spark.daemon import ending_quietly

def gone() -> int:
    raise BrokenPipeError

print(ending_quietly(gone)(), ending_quietly(lambda code: code)(0))
"""


def test_a_task_that_nobody_hears_ends_without_a_traceback() -> None:
    # In a process of its own: this module shuts pandas out of the one that imports it.
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]
