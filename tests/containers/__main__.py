"""`make test-containers`: builds the image, runs docker-compose.yml on podman, and has messages delivered.

Official images are pulled; where no registry of images is reached, stand-ins take their place. Whatever could not be
tried is printed. All that it starts ends with it; the images stay.
"""

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.containers.engine import Failed, Missing, find_engine, podman, run
from tests.containers.stand_ins import LABEL, make_stand_in

PROJECT = Path(__file__).resolve().parents[2]
IMAGE = "localhost/poisonadmin:local"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
WORKERS = ("web", "beat", "io", "spark-redelivery", "spark-batch")
MESSAGES = 1_000
STOP_SECONDS = 10
# Stopped by the signal itself, or with an exit code of its own.
CLEAN_EXITS = {"0", "143"}
# An endpoint in a container of its own, on the image at hand.
_RECEIVER = """
import http.server
class Taking(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("", 9000), Taking).serve_forever()
"""
# Ready, with the page to log in and its style sheets.
_READY = """
import re, urllib.request
def read(path):
    return urllib.request.urlopen("http://127.0.0.1:8000" + path, timeout=5).read().decode()
read("/readyz")
sheets = re.findall(r'href="(/static/[^"]+[.]css)"', read("/"))
assert sheets and all(map(read, sheets))
"""
# From inside the web container, for there is its token.
_CALL = """
import json, sys, urllib.request
method, path, body = sys.argv[1:]
token = open("/var/lib/poisonadmin/admin-token").read().strip()
kind = "application/x-ndjson" if path.startswith("messages/batch") else "application/json"
asked = urllib.request.Request("http://127.0.0.1:8000/api/v1/" + path, body.encode() or None, method=method,
                               headers={"Authorization": "Bearer " + token, "Content-Type": kind})
print(urllib.request.urlopen(asked, timeout=30).read().decode())
"""


class Stack:
    """The services of docker-compose.yml, on podman."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.copytree(PROJECT / "docker", directory / "docker")
        shutil.copy(PROJECT / "docker-compose.yml", directory)
        # The receiver's address is one of podman's own networks.
        (directory / "poisonadmin.env").write_text("POISONADMIN_ALLOWED_NETWORKS=10.0.0.0/8\n")
        run(directory / "docker" / "make-secrets.sh")

    def compose(self, *command: str) -> None:
        """Run a command of the compose implementation."""
        name = ("--from", "podman-compose==1.6.0", "podman-compose", "--project-name", "poisonadmin")
        uv = Path(sys.executable).with_name("uv")
        run(uv, "--system-certs", "tool", "run", *name, "--in-pod", "false", *command, at=self.directory)

    def up(self) -> None:
        """Start all, in the order in which they depend on each other."""
        self.compose("up", "--detach", "--no-build", "--no-deps", "postgres", "valkey")
        wait_for_health("postgres", "valkey")
        self.compose("up", "--detach", "--no-build", "--no-deps", "prepare")
        if podman("wait", container("prepare")).output != "0":
            raise Failed(logs_of("prepare"))
        self.compose("up", "--detach", "--no-build", "--no-deps", *WORKERS)
        until(partial(answers, "exec", container("web"), *READY), "ready")
        wait_for_health(*WORKERS)

    def call(self, method: str, path: str, body: str = "") -> dict[str, Any]:
        """Ask the API, and return what it answers."""
        asked = podman("exec", container("web"), "python", "-c", _CALL, method, path, body)
        return json.loads(asked.output) if asked.output else {}

    def down(self) -> None:
        """End and remove all containers and volumes."""
        podman("rm", "--force", "--ignore", "receiver", check=False)
        self.compose("down", "--volumes")


READY = ("python", "-c", _READY)


def container(service: str) -> str:
    """Return the name of a service's container."""
    return f"poisonadmin_{service}_1"


def logs_of(service: str) -> str:
    """Return what a service has said."""
    return run("sh", "-c", f"podman logs --timestamps {container(service)} 2>&1").output


def answers(*command: str) -> bool:
    """Whether a command of podman succeeds."""
    return podman(*command, check=False).succeeded


def until(met: Callable[[], bool], what: str, seconds: float = 400) -> None:
    """Wait for something. Errors: `Failed`."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            raise Failed(f"not {what} within {seconds} s")
        time.sleep(0.5)


def wait_for_health(*services: str) -> None:
    """Wait until the health check of each service succeeds. Errors: `Failed`."""
    for service in services:
        until(partial(answers, "healthcheck", "run", container(service)), f"{service} healthy")


def base_images() -> set[str]:
    """Return the full names of the images that ours and the compose file are made of."""
    named = re.findall(r"^FROM (\S+:\S+)", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"].values()
    named += [service["image"] for service in services if "build" not in service]
    return {f"docker.io/{name if '/' in name else f'library/{name}'}" for name in named}


def main() -> None:
    """Try everything, and print what was measured and what was not tried."""
    measured: list[tuple[str, str]] = []
    untried = ["health checks by the engine's own timer (without systemd, podman runs them when asked)"]

    def timed(what: str, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        work()
        measured.append((what, f"{time.monotonic() - begun:.1f} s"))
        print(f"  {what}: {measured[-1][1]}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="poisonadmin-containers-") as temporary:
        directory = Path(temporary)
        find_engine(directory)
        for image in sorted(base_images()):
            if not answers("image", "exists", image) and not answers("pull", image):
                timed(f"stand-in of {image}", partial(make_stand_in, image, directory / "stand-ins"))
            if podman("image", "inspect", "--format", f'{{{{index .Labels "{LABEL}"}}}}', image).output:
                untried.append(f"the official {image} (a stand-in took its place)")
        secret = ("--secret", f"id=authorities,src={AUTHORITIES}") if AUTHORITIES.is_file() else ()
        timed("image", lambda: podman("build", "--isolation", "chroot", *secret, "--tag", IMAGE, PROJECT))
        size = int(podman("image", "inspect", "--format", "{{.Size}}", IMAGE).output)
        base = int(podman("image", "inspect", "--format", "{{.Size}}", python_image()).output)
        measured.append(("size of the image, and of its Python's", f"{size / 1e6:,.0f} MB, {base / 1e6:,.0f} MB"))
        (directory / "stack").mkdir()
        stack = Stack(directory / "stack")
        try:
            timed("from nothing to ready", stack.up)
            timed(f"{MESSAGES} messages delivered", lambda: deliver(stack))
            stop(measured)
        finally:
            stack.down()
    print("\n".join(f"{what:<60} {value}" for what, value in measured))
    print("Not tried:\n" + "\n".join(f"- {what}" for what in untried))


def python_image() -> str:
    """Return the image that ours is made on."""
    return next(image for image in base_images() if "/python:" in image)


def deliver(stack: Stack) -> None:
    """Have an endpoint on the stack's network take all messages."""
    network = ("--network", "poisonadmin_default", "--name", "receiver", "--read-only", "--user", "65534")
    podman("run", "--detach", *network, IMAGE, "python", "-c", _RECEIVER)
    of_network = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    address = podman("inspect", "--format", of_network, "receiver").output
    target = {"name": "shop", "kind": "http", "config": {"url": f"http://{address}:9000/"}}
    stack.call("POST", "destinations/", json.dumps(target))
    stack.call("POST", "policies/", json.dumps({"match": "orders.#", "destination": "shop", "settings": {}}))
    lines = [json.dumps({"address": "orders.eu", "message_id": str(n), "payload": {"n": n}}) for n in range(MESSAGES)]
    stack.call("POST", "messages/batch/", "\n".join(lines))
    until(lambda: stack.call("GET", "messages/?state=DLVD&limit=1")["count"] == MESSAGES, "delivered")


def stop(measured: list[tuple[str, str]]) -> None:
    """Stop every service by SIGTERM, as `docker compose stop` does. Errors: `Failed` for one that is late or killed."""
    for service in (*WORKERS, "valkey", "postgres"):
        begun = time.monotonic()
        podman("stop", "--time", str(STOP_SECONDS + 10), container(service))
        seconds = time.monotonic() - begun
        code = podman("inspect", "--format", "{{.State.ExitCode}}", container(service)).output
        measured.append((f"{service} stops", f"{seconds:.1f} s, exit code {code}"))
        if seconds > STOP_SECONDS or code not in CLEAN_EXITS:
            raise Failed(f"{logs_of(service)}\n{service} took {seconds:.1f} s to stop, and ended with {code}.")


if __name__ == "__main__":
    try:
        main()
    except (Missing, Failed) as error:
        sys.exit(str(error))
