"""A server of S3's protocol, which checks signatures, on a port and a directory of its own."""

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.ports import free_port
from tests.archive.ensure_s3 import ensure_s3

BUCKET = "poison"
_START_SECONDS = 180
_QUIET = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%m%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True)
class S3Server:
    """Where it listens, what it takes, and where it keeps the objects."""

    endpoint: str
    key: str
    secret: str
    directory: Path

    @property
    def place(self) -> str:
        """The archive's place, as POISONADMIN_ARCHIVE has it."""
        return f"s3://{BUCKET}/archive?endpoint_override={self.endpoint}&scheme=http&region=us-east-1"

    @property
    def environment(self) -> dict[str, str]:
        """Where clients find their keys, and that they leave out what only AWS's own store understands."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }


@contextmanager
def running_s3(directory: Path) -> Iterator[S3Server]:
    """Run the server with an empty bucket."""
    objects = directory / "objects"
    (objects / BUCKET).mkdir(parents=True)
    server = S3Server(f"127.0.0.1:{free_port()}", "tests", secrets.token_hex(16), objects)
    settings = {
        "s3proxy.endpoint": f"http://{server.endpoint}",
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": server.key,
        "s3proxy.credential": server.secret,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
        "jclouds.filesystem.basedir": str(objects),
    }
    file = directory / "s3proxy.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    quiet = directory / "logback.xml"
    quiet.write_text(_QUIET)
    java = [f"{java_home(directory, os.environ)}/bin/java", "-Xmx256m", f"-Dlogback.configurationFile={quiet}"]
    command = [*java, "-cp", f"{ensure_s3()}/*", "org.gaul.s3proxy.Main", "--properties", str(file)]
    with (directory / "s3proxy.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _await(server, process)
            yield server
        finally:
            process.terminate()


def _await(server: S3Server, process: "subprocess.Popen[bytes]") -> None:
    client = fs.S3FileSystem(
        access_key=server.key, secret_key=server.secret, endpoint_override=server.endpoint, scheme="http"
    )
    until = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, "the S3 server has ended; see s3proxy.log"
        try:
            assert client.get_file_info(BUCKET).type == fs.FileType.Directory
        except OSError:
            assert time.monotonic() < until, "the S3 server does not answer"
            time.sleep(0.2)
        else:
            return
