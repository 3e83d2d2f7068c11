"""Packages of Debian's that tests need, installed where they are missing and we may.

`python -m tests.apt pgbouncer prometheus=promtool` has programs there, each with the package that brings it.
"""

import os
import shutil
import subprocess
import sys


def try_to_install(package: str) -> None:
    """Install a package with apt, as root or by a sudo that asks for nothing; do nothing where that is not possible."""
    if shutil.which("apt-get") is None:
        return
    # As an ordinary user only where sudo asks for nothing: a test run must not wait for a password.
    rights = [] if os.geteuid() == 0 else ["sudo", "-n", "--preserve-env=DEBIAN_FRONTEND,RUNLEVEL"]
    if rights and shutil.which("sudo") is None:
        return
    # In run level 1 the package does not start a server of its own: the tests do.
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        subprocess.run([*rights, "apt-get", "-qq", *command], env=quiet, check=False)


def find_program(name: str) -> str | None:
    """Return the path of a program; None where there is none."""
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        package, _, program = wanted.partition("=")
        if not find_program(program or package):
            try_to_install(package)
        if not find_program(program or package):
            # The tests that need it fail; the others can still run.
            sys.stderr.write(f"Tests need the package `{package}` (apt-get install {package}).\n")
