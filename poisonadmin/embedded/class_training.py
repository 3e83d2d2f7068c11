"""Makes the class archive of a data directory: `python -m poisonadmin.embedded.class_training HOME JAVA_HOME`.

It runs once, in the background, with the lowest priority. What it cannot make is made by a later start, or never:
nothing needs it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import ChildSpec, spawn
from poisonadmin.embedded.spark import ConnectServer

_LOWEST_PRIORITY = 19
_PATIENCE_SECONDS = 300


def make(home: Path, java_home: Path) -> bool:
    """Run a server and one task, keep the classes that they loaded, and return whether that was possible."""
    connect = ConnectServer(home, java_home)
    training = connect.directory / "training"
    shutil.rmtree(training, ignore_errors=True)
    training.mkdir(mode=0o700, parents=True)
    try:
        draft = training / "classes.jsa"
        trained = ConnectServer(training, java_home, [f"-XX:ArchiveClassesAtExit={draft}"])
        _use(trained)
        if draft.exists():
            connect.keep_archive(draft)
            return True
        return False
    finally:
        shutil.rmtree(training, ignore_errors=True)


def _use(server: ConnectServer) -> None:
    server.choose_address()
    client = ChildSpec(
        name="warm-up",
        command=[sys.executable, "-m", "workers.spark.session"],
        environment=dict(os.environ) | {FILE_OF[SPARK_REMOTE]: str(server.address_file)},
        working_directory=PROJECT,
    )
    running = [spawn(spec, subprocess.DEVNULL) for spec in (server.spec(os.environ), client)]
    try:
        if running[1].wait(_PATIENCE_SECONDS) == 0:
            running[0].terminate()  # it writes the archive now
            running[0].wait(_PATIENCE_SECONDS)
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(server.sockets.resolve(), ignore_errors=True)  # it may stand elsewhere


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    try:
        is_made = make(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no class archive was made, so Spark starts slowly: {error}")
    sys.stdout.write("the next start of Spark is faster\n" if is_made else "this Java makes no class archives\n")
