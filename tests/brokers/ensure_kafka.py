"""Finds Apache Kafka for the tests, and puts a broker together from its jars where it is missing.

There is no archive of it in Maven Central: `kafka_pom.xml` names the broker's jar, and Maven its dependencies.
"""

import sys
from pathlib import Path

from tests.brokers.maven import MavenMissing, cached, maven

VERSION = "4.1.1"  # runs on Java 17
_POM = Path(__file__).with_name("kafka_pom.xml")


def ensure_kafka() -> Path:
    """Return the directory of the jars; raise `MavenMissing`."""

    def copy(target: Path) -> None:
        maven("copy-dependencies", "--file", str(_POM), f"-Dkafka.version={VERSION}", into=target)

    return cached(f"kafka-{VERSION}", copy)


if __name__ == "__main__":
    try:
        ensure_kafka()
    except MavenMissing as missing:
        sys.exit(str(missing))
