"""Finds PgBouncer for the tests, and installs Debian's where it is missing and we may."""

import shutil
import sys

from tests.apt import try_to_install

PACKAGE = "pgbouncer"


def pgbouncer() -> str | None:
    """Return the program; None where there is none."""
    return shutil.which(PACKAGE, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


if __name__ == "__main__":
    if not pgbouncer():
        try_to_install(PACKAGE)
    if not pgbouncer():
        sys.exit(f"Tests need PgBouncer: install the package `{PACKAGE}` (apt-get install {PACKAGE}).")
