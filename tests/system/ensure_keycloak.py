"""Finds Keycloak for the tests of single sign-on, and fetches its distribution where it is missing."""

import sys
from pathlib import Path

from tests.brokers.maven import MavenMissing, cached, maven

VERSION = "26.4.0"  # runs on Java 17


def ensure_keycloak() -> Path:
    """Return the directory of the unpacked distribution; raise `MavenMissing`."""

    def unpack(target: Path) -> None:
        maven("unpack", f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip", into=target)

    return cached(f"keycloak-{VERSION}", unpack) / f"keycloak-{VERSION}"


if __name__ == "__main__":
    try:
        ensure_keycloak()
    except MavenMissing as missing:
        sys.exit(str(missing))
