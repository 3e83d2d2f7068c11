"""PoisonAdmin runs as a role that owns nothing; the owner of the tables migrates, and no process keeps its password."""

import psutil

from poisonadmin.embedded.processes import marked
from tests.system.running_role import assert_only_runs
from tests.whole_system.installation import Installation


def test_what_runs_may_neither_rewrite_the_past_nor_change_tables(installation: Installation) -> None:
    assert_only_runs(installation.database_url)


def test_no_process_keeps_the_password_of_the_owner(installation: Installation) -> None:
    secret = (installation.home / "postgres-owner-password").read_text().strip()
    processes = [installation.process_of(name) for name in ("web", "beat", "io", "spark-redelivery")]
    for process in {*processes, *(psutil.Process(one.pid) for one in marked(installation.home))}:
        assert secret not in f"{process.environ()} {process.cmdline()}"
    assert secret not in (installation.home / "environment").read_text()
