"""Finds ActiveMQ Artemis for the tests, and fetches its distribution where it is missing: see `make test-brokers`."""

import sys
from pathlib import Path

from tests.brokers.maven import MavenMissing, cached, maven

VERSION = "2.44.0"  # runs on Java 17


def ensure_artemis() -> Path:
    """Return the directory of the unpacked distribution; raise `MavenMissing`."""

    def unpack(target: Path) -> None:
        maven("unpack", f"-Dartifact=org.apache.activemq:apache-artemis:{VERSION}:tar.gz:bin", into=target)

    return cached(f"artemis-{VERSION}", unpack) / f"apache-artemis-{VERSION}"


if __name__ == "__main__":
    try:
        ensure_artemis()
    except MavenMissing as missing:
        sys.exit(str(missing))
