"""How long a promise may take to be kept here: promises are made for a machine that does nothing else."""

import os


def on_this_machine(seconds: float) -> float:
    """Return the time, longer in proportion where more wants to run than there are cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
