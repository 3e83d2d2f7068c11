"""What handlers leave behind ends with their sandbox, whatever it does to get away."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.workers.sandboxes import handle
from workers.delivery.handler.children import end_sandboxes_of, mark_of

MARKED = """
import os, resource, sys, time
resource.setrlimit(10, (int(sys.argv[1]),) * 2)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(1)
        time.sleep(60)
os._exit(0)
"""


@pytest.mark.parametrize(("then", "outcome"), [("ok", "delivered"), ("abort", "crashed")])
def test_a_process_with_another_parent_session_and_program_ends_with_its_sandbox(
    tmp_path: Path, then: str, outcome: str
) -> None:
    note = tmp_path / "note"
    [row] = handle([f"escape {note} {then}"], tmp_path / "pages", callable_name="deadly:handle").rows
    assert row.outcome == outcome
    assert _has_ended(int(note.read_text()))


def test_what_a_lost_node_left_behind_is_ended_and_nobody_elses(tmp_path: Path) -> None:
    mine, other_node, other_home = (
        _leave_behind(mark_of(*one)) for one in ((tmp_path, 7, 1), (tmp_path, 8, 1), (tmp_path / "other", 7, 1))
    )
    try:
        end_sandboxes_of(tmp_path, 7)
        assert _has_ended(mine)
        assert psutil.pid_exists(other_node)
        assert psutil.pid_exists(other_home)
    finally:
        for pid in (other_node, other_home):
            os.kill(pid, 9)


def test_processes_of_another_user_are_found_by_a_root_that_may_only_read_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = _leave_behind(mark_of(tmp_path, 7, 1))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "prlimit", refuse)
    end_sandboxes_of(tmp_path, 7)
    assert _has_ended(left)


def _leave_behind(mark: int) -> int:
    return int(subprocess.run([sys.executable, "-c", MARKED, str(mark)], stdout=subprocess.PIPE, check=True).stdout)


def _has_ended(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
