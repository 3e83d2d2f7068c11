"""What the figures were measured on."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import psutil
import psycopg

_PACKAGES = ("django", "uvicorn", "celery", "pyspark", "psycopg", "aiohttp", "procrastinate")


def description(database_url: str) -> list[str]:
    """Return versions, settings and load, a few lines of text."""
    with psycopg.connect(database_url) as connection:
        shown = {
            name: _shown(connection, name)
            for name in ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        }
    version = shown.pop("server_version")
    settings = ", ".join(f"{name}={value}" for name, value in shown.items())
    memory = psutil.virtual_memory().total / 2**30
    return [
        f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, {java()}, PostgreSQL {version} ({settings})",
        ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES),
        f"load before the first run: {' '.join(f'{load:.2f}' for load in os.getloadavg())}",
    ]


def processor() -> str:
    """Return the processor's name, as far as the system tells."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def java() -> str:
    """Return the version of the Java that Spark runs on."""
    program = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else Path("java")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    return said.splitlines()[0].replace('"', "") if said else "no Java"


def _shown(connection: "psycopg.Connection[tuple[object, ...]]", setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    assert row is not None
    return str(row[0])
