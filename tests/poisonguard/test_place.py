"""A process's directory: who is dead, and who takes over what it left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from poisonguard.place import Record, dead_places, make_place

ROOT = Path(__file__).parents[2]
OWNER = """
import sys
from pathlib import Path
from poisonguard.place import make_place
place = make_place(Path(sys.argv[1]))
place.journal().begin(sys.argv[2])
print(place.name, flush=True)
sys.stdin.read()
"""
OTHER = """
import sys
from pathlib import Path
from poisonguard.place import dead_places
print(len(list(dead_places(Path(sys.argv[1])))))
"""


def start_owner(root: Path, bookmark: str = "13") -> "subprocess.Popen[str]":
    """Start a process that holds a place and is handling a bookmark."""
    pipe = subprocess.PIPE
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root), bookmark], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline()
    return owner


def kill(owner: "subprocess.Popen[str]") -> None:
    """Kill it with SIGKILL."""
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    for pipe in (owner.stdin, owner.stdout):
        assert pipe is not None
        pipe.close()


def test_the_living_are_left_alone(tmp_path: Path) -> None:
    owner = start_owner(tmp_path)
    assert list(dead_places(tmp_path)) == []
    kill(owner)


def test_a_dead_process_s_place_is_taken_over_with_what_it_was_handling(tmp_path: Path) -> None:
    kill(start_owner(tmp_path))
    ((place, unfinished),) = dead_places(tmp_path)
    assert unfinished == [(0, Record(1, "13", None))]
    place.close()
    assert list(tmp_path.iterdir()) == []


def test_what_one_process_has_taken_over_another_does_not(tmp_path: Path) -> None:
    kill(start_owner(tmp_path))
    ((place, _),) = dead_places(tmp_path)
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    reader = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert reader.stdout.strip() == "0"
    assert list(dead_places(tmp_path)) == []
    place.close()


def test_a_process_number_that_another_process_has_by_now_is_not_taken_for_life(tmp_path: Path) -> None:
    owner = start_owner(tmp_path)
    kill(owner)
    ((place, _),) = dead_places(tmp_path)
    place.write_report(0, 1, {"bookmark": "13"})
    place.close()
    (path,) = tmp_path.iterdir()
    (path / "lock").write_text(f"{os.getpid()}\n")
    ((again, _),) = dead_places(tmp_path)
    assert [report.name for report in again.reports()] == ["report-0-1.json"]
    again.reports()[0].unlink()
    again.close()


def test_a_crash_is_put_down_once_even_where_the_owner_had_reported_it(tmp_path: Path) -> None:
    kill(start_owner(tmp_path))
    ((place, ((number, record),)),) = [(place, tuple(left)) for place, left in dead_places(tmp_path)]
    place.write_report(number, record.sequence, {"bookmark": "13", "why": "the owner's own word"})
    place.report_once(number, record.sequence, {"bookmark": "13", "why": "Fatal error."})
    (report,) = place.reports()
    assert "the owner's own word" in report.read_text()
    report.unlink()
    place.close()


def test_a_report_has_the_same_key_wherever_it_is_sent_from(tmp_path: Path) -> None:
    kill(start_owner(tmp_path))
    ((place, ((number, record),)),) = [(place, tuple(left)) for place, left in dead_places(tmp_path)]
    place.report_once(number, record.sequence, {"bookmark": "13"})
    before = [place.key_of(report) for report in place.reports()]
    place.close()
    ((again, unfinished),) = dead_places(tmp_path)
    assert [again.key_of(report) for report in again.reports()] == before
    assert unfinished == []
    again.reports()[0].unlink()
    again.close()


def test_a_place_without_reports_leaves_nothing_behind(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    journal = place.journal()
    journal.begin("1")
    journal.clear()
    place.give_back(journal)
    assert place.journal() is journal
    place.close()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_neither_ends_nor_takes_over_its_parent(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    place.journal().begin("1")
    pid = os.fork()
    if not pid:
        from poisonguard import place as module

        place.abandon()
        module.forget_held()
        os._exit(len(list(dead_places(tmp_path))))
    assert os.waitpid(pid, 0)[1] == 0
    assert place.current() == "1"
    place.close()


def test_another_guard_of_this_process_does_not_give_the_lock_away_however_the_directory_is_spelt(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path / "journals")
    (tmp_path / "link").symlink_to(tmp_path / "journals")
    assert list(dead_places(tmp_path / "link")) == []
    command = [sys.executable, "-c", OTHER, str(tmp_path / "journals")]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() == "0"
    place.close()


def test_a_directory_in_the_making_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    (tmp_path / ".new-abc").mkdir()
    assert list(dead_places(tmp_path)) == []
    assert (tmp_path / ".new-abc").exists()


def test_a_directory_whose_maker_died_long_ago_is_removed(tmp_path: Path) -> None:
    stillborn = tmp_path / ".new-abc"
    stillborn.mkdir()
    os.utime(stillborn, (0, 0))
    assert list(dead_places(tmp_path)) == []
    assert not stillborn.exists()


def test_only_the_owner_may_read_what_is_there(tmp_path: Path) -> None:
    place = make_place(tmp_path / "journals")
    place.journal()
    assert (tmp_path / "journals").stat().st_mode & 0o777 == 0o700
    assert (place.path / "journal-0").stat().st_mode & 0o777 == 0o600
    place.close()
