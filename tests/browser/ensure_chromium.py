"""Finds Chromium for the browser tests, and installs Debian's where it is missing and we may: run by `make test`."""

import os
import shutil
import subprocess
import sys

PACKAGE = "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


class ChromiumMissing(Exception):
    """Raised when there is no Chromium to test with; the text names the package to install."""


def chromium_path() -> str:
    """Return the path of the Chromium on this machine; raise `ChromiumMissing` when there is none."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise ChromiumMissing(
        f"The browser tests need Chromium: install the package `{PACKAGE}` (apt-get install {PACKAGE})."
    )


def ensure_chromium() -> None:
    """Install Chromium with apt where it is missing; raise `ChromiumMissing` when that is not possible either."""
    if any(map(shutil.which, _NAMES)):
        return
    if shutil.which("apt-get"):
        # As an ordinary user only where sudo asks for nothing: a test run must not wait for a password.
        rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if not rights or shutil.which("sudo"):
            quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            for command in (["update"], ["install", "--yes", "--no-install-recommends", PACKAGE]):
                subprocess.run([*rights, "apt-get", "-qq", *command], env=quiet, check=False)
    chromium_path()


if __name__ == "__main__":
    try:
        ensure_chromium()
    except ChromiumMissing as missing:
        # The browser tests say so again, and fail; the others can still run.
        sys.stderr.write(f"{missing}\n")
