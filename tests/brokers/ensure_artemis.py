"""Finds ActiveMQ Artemis for the tests, and fetches its distribution where it is missing: see `make test-brokers`."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.brokers.maven import MavenMissing, cached, maven

VERSION = "2.44.0"  # runs on Java 17
_PROGRAMS = sorted(Path(__file__).parent.glob("*.java"))


def ensure_artemis() -> Path:
    """Return the directory of the unpacked distribution; raise `MavenMissing`."""

    def unpack(target: Path) -> None:
        maven("unpack", f"-Dartifact=org.apache.activemq:apache-artemis:{VERSION}:tar.gz:bin", into=target)

    return cached(f"artemis-{VERSION}", unpack) / f"apache-artemis-{VERSION}"


def jms_programs() -> str:
    """Return the class path of the JMS programs beside this file, compiled once as they are."""
    libraries = f"{ensure_artemis()}/lib/*"

    def compile_to(target: Path) -> None:
        subprocess.run(["javac", "-cp", libraries, "-d", target, *_PROGRAMS], check=True)

    digest = hashlib.sha256(b"".join(one.read_bytes() for one in _PROGRAMS)).hexdigest()[:16]
    return f"{libraries}:{cached(f'artemis-{VERSION}-jms-{digest}', compile_to)}"


if __name__ == "__main__":
    try:
        ensure_artemis()
    except MavenMissing as missing:
        sys.exit(str(missing))
