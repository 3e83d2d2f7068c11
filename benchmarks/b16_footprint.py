"""B16: what `make up` costs while it does nothing, and how long it takes to be there, beside a bare Django."""

import http.client
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from benchmarks import live, memory
from benchmarks.consumer import Arrival, running_sink
from benchmarks.results import Line, at_most, say
from benchmarks.stopwatch import others_cpu_seconds
from benchmarks.system import System, running_system
from benchmarks.world import World, temporary_directory
from poisonadmin.embedded.ports import free_port

NAME = "B16"
# Python tasks that do nothing end after a minute.
IDLE_SECONDS = 75.0
PATH = "/ok/b16"
# The embedded services are part of what is measured, so nothing of the benchmarks' own may replace them.
_EMBEDDED = {"DATABASE_URL": "", "REDIS_URL": "", "SPARK_LOCAL_DIRS": "", "POISONADMIN_LOG_LEVEL": ""}

_BARE_DJANGO = """
import django.conf, django.core.asgi, django.http, django.urls
django.conf.settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
urlpatterns = [django.urls.path("", lambda request: django.http.HttpResponse("ok"))]
application = django.core.asgi.get_asgi_application()
"""


def run(world: World) -> list[Line]:
    """Measure. This benchmark has no pairs and no scale.

    The next start finds what the first one leaves: the tables, the archive of classes, and files in the disk cache.
    """
    with temporary_directory() as directory, running_sink() as sink:
        home = directory / "home"
        with running_system(home, _EMBEDDED) as first:
            _ask(first, "destinations", {"name": "b16", "kind": "http", "config": {"url": sink.url(PATH)}})
            _ask(first, "policies", {"match": "b16", "destination": "b16", "settings": {}})
            say("  until the archive of classes is made")
            live.wait_until(lambda: any(home.glob("connect/classes-*")), seconds=600, what="an archive of classes")
        with running_system(home, _EMBEDDED, _hand_in) as system:
            arrivals: list[Arrival] = []

            def has_arrived() -> bool:
                arrivals.extend(sink.take_arrivals(PATH))
                return bool(arrivals)

            live.wait_until(has_arrived, seconds=60, what="the first delivery")
            idle_seconds = world.count(int(IDLE_SECONDS), least=5)
            say(f"  idle for {idle_seconds} s")
            time.sleep(idle_seconds)
            idle_share = cpu_share(system, seconds=world.count(60, least=3))
            footprint = memory.footprint(system.processes())
        bare_seconds, bare_bytes = bare_django(directory)
    whole = sum(footprint.values())
    mib = memory.MIB
    delivered = arrivals[0].at - system.began_at
    note = f"a bare Django has {bare_bytes / mib:,.0f} MiB"
    return [
        Line(NAME, "first start, empty directory: first page / all workers", _starts(first)),
        Line(NAME, "next start: first page / all workers", _starts(system)),
        at_most(
            NAME, "next start: first delivery", delivered, aim=12, unit="s", limit="imports, and Spark's first job"
        ),
        Line(NAME, "bare Django under uvicorn: first page", f"{bare_seconds:.1f} s"),
        at_most(NAME, "idle memory", whole / mib, aim=1400, unit="MiB", note=note),
        at_most(NAME, "idle processor time, of one core", idle_share * 100, aim=5, unit="%"),
        *memory.lines(NAME, "idle", footprint),
    ]


def _hand_in(system: System) -> None:
    _ask(system, "messages", {"address": "b16", "message_id": "first", "payload": "a body"})


def _ask(system: System, path: str, body: object) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=30)
    headers = {"Authorization": f"Bearer {system.token}", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/{path}/", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status < http.HTTPStatus.BAD_REQUEST, answer.read()
    connection.close()


def _starts(system: System) -> str:
    return f"{system.web_seconds:.1f} s / {system.ready_seconds:.1f} s"


def cpu_share(system: System, *, seconds: float) -> float:
    """Return how much of one core all of the system's processes use."""
    before = others_cpu_seconds(system.supervisor)
    time.sleep(seconds)
    return (others_cpu_seconds(system.supervisor) - before) / seconds


def bare_django(directory: Path) -> tuple[float, int]:
    """Return after how many seconds a Django with one view answers under uvicorn, and its PSS in bytes."""
    (directory / "bare.py").write_text(_BARE_DJANGO)
    port = free_port()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "bare:application", "--port", str(port), "--log-level", "error"],
        cwd=directory,
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        while True:
            try:
                opener.open(f"http://127.0.0.1:{port}/", timeout=2).close()
                break
            except OSError:
                time.sleep(0.02)
        return time.monotonic() - began, memory.pss_bytes(process.pid)
    finally:
        process.terminate()
        process.wait(10)
