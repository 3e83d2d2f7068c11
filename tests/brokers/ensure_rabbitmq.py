"""Finds RabbitMQ for the tests, and installs Debian's where it is missing and we may: run by `make test`."""

import sys
from pathlib import Path

from tests.apt import try_to_install

PACKAGE = "rabbitmq-server"
# Debian's; its command in /usr/sbin insists on a user of its own, this one does not.
_SCRIPTS = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"), Path("/usr/local/lib/rabbitmq/sbin/rabbitmq-server"))


class RabbitMqMissing(Exception):
    """Raised when there is no RabbitMQ to test with; the text names the package to install."""


def rabbitmq_script() -> Path:
    """Return the path of the script that starts RabbitMQ as any user; raise `RabbitMqMissing`."""
    for script in _SCRIPTS:
        if script.exists():
            return script
    raise RabbitMqMissing(f"Tests need RabbitMQ: install the package `{PACKAGE}` (apt-get install {PACKAGE}).")


def ensure_rabbitmq() -> None:
    """Install RabbitMQ with apt where it is missing; raise `RabbitMqMissing` when that is not possible either."""
    if any(script.exists() for script in _SCRIPTS):
        return
    try_to_install(PACKAGE)
    rabbitmq_script()


if __name__ == "__main__":
    try:
        ensure_rabbitmq()
    except RabbitMqMissing as missing:
        # The tests that need it say so again, and fail; the others can still run.
        sys.stderr.write(f"{missing}\n")
