"""Finds Helm for the checks of the chart, and builds it with Go where it is missing: see `make check`."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "3.22.0"
_BIN = Path(sys.executable).parent


class HelmMissing(Exception):
    """Raised when there is no Helm, and none can be built; the text says what to install."""


def ensure_helm() -> str:
    """Return the program, built once where it is missing; raise `HelmMissing`."""
    # The tests and `make check` may begin side by side: one builds, the other one waits.
    with (_BIN / ".helm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := shutil.which("helm", path=f"{_BIN}{os.pathsep}{os.environ.get('PATH', '')}"):
            return found
        if not shutil.which("go"):
            raise HelmMissing(f"The chart is checked with Helm {VERSION}: install `helm`, or Go to build it (golang).")
        print(f"Building Helm {VERSION}, once: some minutes.", flush=True)
        # Beside tests that measure time.
        command = ["nice", "-n", "19", "go", "install", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"]
        done = subprocess.run(command, env=os.environ | {"GOBIN": str(_BIN)}, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise HelmMissing(f"Go could not build Helm {VERSION}: install `helm`.\n{done.stderr[-2000:]}")
    return str(_BIN / "helm")
