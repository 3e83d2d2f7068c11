"""`make up`, with real PostgreSQL and Valkey and small programs of our own."""

import contextlib
import fcntl
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from poisonadmin.embedded.placement import data_parent, postgres_programs
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.postgres import STOP_SECONDS
from poisonadmin.embedded.processes import database_account, marked
from tests.embedded.conftest import Start
from tests.embedded.running import Running
from tests.patience import on_this_machine
from tests.services import Services

PROMISED_STOP_SECONDS = 10


def test_everything_starts_in_order_and_says_where_it_is(running: Running) -> None:
    output = running.output
    names = ["postgres", "valkey", "migrate", "web", "last"]
    positions = [output.index(f"started {name} (") for name in names]
    assert positions == sorted(positions)
    assert f"ready at http://127.0.0.1:{running.port}/" in output
    assert output.count("password: as printed once") == 1
    assert str(running.home / "environment") in output


@pytest.mark.parametrize("wish", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_process_even_one_that_does_not_listen(start_small: Start, wish: signal.Signals) -> None:
    running = start_small(**({"STUBBORN": "yes"} if wish == signal.SIGTERM else {}))
    running.until("last is up")
    running.signal(wish)
    assert running.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 0
    assert running.left() == []


def test_the_database_is_left_time_for_the_checkpoint_after_a_bulk_load(start_all: Start) -> None:
    running = start_all()
    running.until("last is up")
    with psycopg.connect(running.superuser_url) as session:
        session.execute("CREATE TABLE loaded AS SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 50000) n")
    back_ends = psutil.process_iter(["ppid", "cmdline"])
    mine = (one for one in back_ends if one.info["ppid"] == running.pid_of("postgres"))
    [checkpointer] = [one for one in mine if "checkpointer" in " ".join(one.info["cmdline"])]
    # A disk that takes nothing for as long as everything else is given to end.
    checkpointer.suspend()
    running.signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(PROMISED_STOP_SECONDS + 1)
    checkpointer.resume()
    assert running.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 0
    assert running.left() == []
    assert f"postgres: has not ended yet, killed after {STOP_SECONDS:.0f} s" in running.output
    assert "in time, killed" not in running.output
    assert _state_of_files(running) == "shut down"


def test_a_signal_during_the_start_ends_it(start_all: Start) -> None:
    running = start_all()
    running.until(r"started postgres")
    running.signal(signal.SIGTERM)
    assert running.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 0
    assert running.left() == []


def test_killing_the_supervisor_leaves_no_process_and_the_next_start_works(start_all: Start) -> None:
    first = start_all(STUBBORN="yes")
    first.until("last is up")
    first.signal(signal.SIGKILL)
    first.process.wait()
    first.until_none_left()
    second = start_all(home=first.home, port=first.port)
    second.until("last is up")


def test_killing_make_ends_what_it_started(start_small: Start, tmp_path: Path) -> None:
    makefile = tmp_path / "Makefile"
    makefile.write_text("up:\n\t@exec $(COMMAND)\n")
    for wish in (signal.SIGINT, signal.SIGKILL):
        running = start_small(home=tmp_path / wish.name, under=["sh", "-c", _UNDER_MAKE, str(makefile)])
        running.until("last is up")
        running.signal(wish)
        running.process.wait(on_this_machine(PROMISED_STOP_SECONDS))
        running.until("supervisor +. stopped")
        running.until_none_left()


# make gets the command of the supervisor as a variable; the shell is replaced by make, whom the signal is for.
_UNDER_MAKE = 'makefile=$0; exec make -f "$makefile" up COMMAND="$*"'


@pytest.mark.parametrize("name", ["web", "last", "valkey", "postgres"])
def test_a_killed_child_is_started_again_and_said_to_be(running: Running, name: str) -> None:
    first = running.pid_of(name)
    psutil.Process(first).kill()
    running.until(rf"{name} \(process {first}\) ended with signal SIGKILL; starting it again in \d")
    running.until(lambda: running.pid_of(name) != first)


def test_a_child_that_cannot_be_started_is_tried_again_and_the_others_go_on(running: Running) -> None:
    first = running.pid_of("last")
    (running.home / "blocked").touch()
    psutil.Process(first).kill()
    running.until(r"last cannot be started: .*Read-only file system.*; trying again in \d")
    assert running.process.poll() is None
    assert psutil.pid_exists(running.pid_of("web"))
    (running.home / "blocked").unlink()
    running.until(lambda: running.pid_of("last") != first)


def test_a_killed_database_comes_back_with_what_was_committed_despite_a_busy_session(running: Running) -> None:
    url = running.urls["DATABASE_URL"]
    running.until(lambda: _takes_sessions(url))
    session = psycopg.connect(running.superuser_url)
    session.execute("CREATE TABLE kept (what text)")
    session.execute("INSERT INTO kept VALUES ('committed')")
    session.commit()
    session.execute("INSERT INTO kept VALUES ('not committed')")
    psutil.Process(running.pid_of("postgres")).kill()
    session.close()
    running.until(lambda: _takes_sessions(url))
    with psycopg.connect(running.superuser_url) as session:
        assert session.execute("SELECT what FROM kept").fetchall() == [("committed",)]


def test_the_next_start_finds_the_data_of_the_one_before(start_all: Start) -> None:
    first = start_all()
    first.until("last is up")
    with psycopg.connect(first.superuser_url) as session:
        session.execute("CREATE TABLE kept ()")
    first.signal(signal.SIGTERM)
    assert first.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 0
    assert first.left() == []
    second = start_all(home=first.home)
    second.until("last is up")
    with psycopg.connect(second.superuser_url) as session:
        assert session.execute("SELECT to_regclass('kept') IS NOT NULL").fetchone() == (True,)


def test_two_supervisors_on_one_home_refuse_clearly(running: Running) -> None:
    second = Running(running.home, free_port())
    assert second.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 1
    assert f"already runs on {running.home} (process {running.process.pid})" in second.output
    assert psutil.pid_exists(running.pid_of("postgres"))


def test_the_lock_is_for_this_user_alone_and_names_no_process_that_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    lock = home / "supervisor.lock"
    with subprocess.Popen(["true"]) as gone:
        pass
    lock.write_text(f"{gone.pid}\n")
    lock.chmod(0o644)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = Running(home, free_port())
        assert refused.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 1
    assert f"already runs on {home}" in refused.output
    assert str(gone.pid) not in refused.output.partition(str(home))[2]
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_a_taken_port_is_named_with_the_way_to_choose_another(start_all: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        running = start_all(port=port)
        assert running.process.wait(on_this_machine(PROMISED_STOP_SECONDS)) == 1
    assert f"Port {port} is taken" in running.output
    assert f"POISONADMIN_PORT={port + 1}" in running.output
    assert running.left() == []


def test_a_failing_migration_is_said_and_leaves_no_process(start_small: Start) -> None:
    running = start_small(BROKEN_MIGRATION="yes")
    assert running.process.wait(60) == 1
    assert "migrate failed with status 3" in running.output
    assert running.left() == []


def test_services_of_ones_own_replace_the_embedded_ones(start_small: Start, services: Services) -> None:
    urls = {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    running = start_small()
    running.until("last is up")
    assert "started postgres" not in running.output
    assert "started valkey" not in running.output
    assert {name: running.urls[name] for name in urls} == urls


def test_no_process_has_a_secret_in_its_environment(start_small: Start, services: Services) -> None:
    running = start_small(POISONADMIN_SECRET_KEY="canary-of-the-key", POISONADMIN_BROKER_PASSWORD="canary-of-a-broker")
    running.until("last is up")
    secrets = [running.urls["DATABASE_URL"], running.urls["REDIS_URL"], "canary-"]
    for process in marked(running.home):
        environment = Path(f"/proc/{process.pid}/environ").read_text()
        assert [secret for secret in secrets if secret in environment] == []
    for file in (running.home / "secrets").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (running.home / "secrets" / "poisonadmin-secret-key").read_text() == "canary-of-the-key"


def test_the_services_ask_for_their_passwords(running: Running) -> None:
    urls = running.urls
    running.until(lambda: _takes_sessions(urls["DATABASE_URL"]))
    secret = (running.home / "postgres-password").read_text()
    running.until("last is up")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(urls["DATABASE_URL"].replace(secret, "guessed"))
    port = urls["REDIS_URL"].rsplit(":", 1)[1]
    with redis.Redis.from_url(f"redis://127.0.0.1:{port}") as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    for name in (
        "postgres-password",
        "postgres-owner-password",
        "postgres-superuser-password",
        "valkey-password",
        "environment",
    ):
        assert (running.home / name).stat().st_mode & 0o077 == 0
    for process in running.left():
        with contextlib.suppress(psutil.NoSuchProcess):  # some are only there to ask whether a service is ready
            assert secret not in " ".join(process.cmdline())


def _state_of_files(running: Running) -> str:
    """Return what PostgreSQL's own files say of its end: "shut down" after a checkpoint."""
    program = postgres_programs(database_account()) / "pg_controldata"
    data = data_parent(running.home, database_account()) / "data"
    said = subprocess.run([program, data], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    return re.findall(r"cluster state: +(.+)", said)[0]


def _takes_sessions(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False
