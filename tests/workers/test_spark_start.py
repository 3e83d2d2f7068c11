"""A Spark worker whose Connect server goes away while it connects ends soon, and does not ask for ten minutes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from workers.spark_worker import EXIT_JVM_DIED

PROJECT = Path(__file__).resolve().parents[2]


def test_a_worker_whose_server_is_started_again_while_it_connects_ends(tmp_path: Path, test_database_url: str) -> None:
    address = tmp_path / "spark-remote"
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:
        address.write_text(f"sc://localhost:{silent.getsockname()[1]}")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {
            "SPARK_REMOTE_FILE": str(address),
            "DATABASE_URL": test_database_url,
            "DJANGO_SETTINGS_MODULE": "poisonadmin.settings",
        }
        begin = "import django; django.setup(); from workers.spark_worker import start; start('spark-batch')"
        command = [sys.executable, "-c", begin]
        with subprocess.Popen(command, cwd=PROJECT, env=environment) as process:
            silent.settimeout(30)
            for _ in range(2):  # it asks whether somebody listens, and then the client connects
                silent.accept()[0].close()
            address.write_text(f"sc://localhost:{other.getsockname()[1]}")
            assert process.wait(timeout=30) == EXIT_JVM_DIED
