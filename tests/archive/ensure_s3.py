"""Finds S3Proxy for the tests, a server of S3's protocol over a directory, and fetches it where it is missing."""

import sys
from pathlib import Path

from tests.brokers.maven import MavenMissing, cached, maven

VERSION = "2.6.0"
_POM = Path(__file__).with_name("s3_pom.xml")


def ensure_s3() -> Path:
    """Return the directory of the jars; raise `MavenMissing`."""

    def copy(target: Path) -> None:
        maven("copy-dependencies", "--file", str(_POM), f"-Ds3proxy.version={VERSION}", into=target)

    return cached(f"s3proxy-{VERSION}", copy)


if __name__ == "__main__":
    try:
        ensure_s3()
    except MavenMissing as missing:
        sys.exit(str(missing))
