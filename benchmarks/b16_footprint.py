"""B16: what `make up` costs while it does nothing, and how long it takes to be there, beside a bare Django."""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from benchmarks import memory
from benchmarks.results import Line, say
from benchmarks.stopwatch import others_cpu_seconds
from benchmarks.system import System, running_system
from benchmarks.world import World, temporary_directory
from poisonadmin.embedded.ports import free_port

NAME = "B16"
IDLE_SECONDS = 20.0
# The embedded services are part of what is measured, so nothing of the benchmarks' own may replace them.
_EMBEDDED = {"DATABASE_URL": "", "REDIS_URL": "", "SPARK_LOCAL_DIRS": "", "POISONADMIN_LOG_LEVEL": ""}

_BARE_DJANGO = """
import django.conf, django.core.asgi, django.http, django.urls
django.conf.settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
urlpatterns = [django.urls.path("", lambda request: django.http.HttpResponse("ok"))]
application = django.core.asgi.get_asgi_application()
"""


def run(world: World) -> list[Line]:
    """Measure. This benchmark has no pairs and no scale."""
    with temporary_directory() as directory:
        home = directory / "home"
        with running_system(home, _EMBEDDED) as system:
            first = system
        with running_system(home, _EMBEDDED) as system:
            say(f"  idle for {world.count(int(IDLE_SECONDS), least=5)} s")
            time.sleep(world.count(int(IDLE_SECONDS), least=5))
            idle_share = cpu_share(system, seconds=world.count(10, least=3))
            footprint = memory.footprint(system.processes())
        bare_seconds, bare_bytes = bare_django(directory)
    whole = sum(footprint.values())
    mib = memory.MIB
    return [
        Line(NAME, "first start, empty directory: first page / all workers", _starts(first), "", None),
        Line(
            NAME,
            "next start: first page / all workers",
            _starts(system),
            "",
            None,
            "the JVMs and imports of two Spark workers",
        ),
        Line(NAME, "bare Django under uvicorn: first page", f"{bare_seconds:.1f} s"),
        Line(NAME, "idle memory against a bare Django", f"{whole / mib:,.0f} MiB against {bare_bytes / mib:,.0f} MiB"),
        Line(NAME, "idle processor time, of one core", f"{idle_share:.1%}"),
        *memory.lines(NAME, "idle", footprint),
    ]


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
