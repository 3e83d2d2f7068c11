"""Starts one PostgreSQL and one Valkey for the test run, before pytest-django reads the settings.

Loaded by `-p tests.services_plugin` (pyproject.toml). Importing starts them: pytest-django reads the settings in the
first hook there is, so no hook of ours comes early enough. Under xdist each worker starts its own; the controller needs
none.
"""

import atexit
import itertools
import os
import pwd
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.services import Services, start_services

_SHARED = "TESTS_OF_POISONADMIN_DIRECTORY"


def shared_directory() -> Path:
    """Return the directory of the run, which all of its processes share."""
    return Path(os.environ[_SHARED])


def _make_shared_directory() -> None:
    """Make the directory in the first process of the run, which removes it at its end."""
    if _SHARED not in os.environ:
        os.environ[_SHARED] = tempfile.mkdtemp(prefix="poisonadmin-tests-")
        atexit.register(shutil.rmtree, os.environ[_SHARED], ignore_errors=True)


def _is_xdist_controller() -> bool:
    """Return whether this process only gives tests to others: asked for some, the last word counts."""
    asked = "0"
    for argument, following in itertools.pairwise([*sys.argv, ""]):
        if argument in {"-n", "--numprocesses"}:
            asked = following
        elif argument.startswith(("-n", "--numprocesses=")):
            asked = argument.removeprefix("--numprocesses=").removeprefix("-n")
    return asked != "0" and "PYTEST_XDIST_WORKER" not in os.environ


def _start() -> Services | None:
    _make_shared_directory()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "poisonadmin.settings")
    home = Path(tempfile.mkdtemp(prefix="poisonadmin-test-"))
    os.environ["POISONADMIN_HOME"] = str(home)
    (home / "staticfiles").mkdir()  # WhiteNoise warns of its absence, and warnings are errors
    os.environ["POISONADMIN_ALLOW_LOOPBACK"] = "1"
    os.environ["POISONADMIN_SOURCE_ROOTS"] = "/srv"
    # The handlers of the tests write notes into the directories of the tests.
    os.environ["POISONADMIN_SANDBOX_USER"] = pwd.getpwuid(os.geteuid()).pw_name
    os.environ["POISONADMIN_ENCRYPTION_KEYS"] = secrets.token_urlsafe(32)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A JVM that ends with the tests has no use for code that took seconds of both cores to optimise.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if _is_xdist_controller():
        os.environ["DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
        return None
    started = start_services(home, durable=False)
    atexit.register(started.stop)
    os.environ["DATABASE_URL"] = started.database_url
    os.environ["REDIS_URL"] = started.redis_url
    return started


services = _start()
