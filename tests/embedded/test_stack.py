"""PostgreSQL and Valkey alone, as tests and benchmarks start them."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from poisonadmin.embedded.placement import data_parent
from poisonadmin.embedded.processes import database_account
from tests.services import start_services


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose files are gone after the test, also those that had to stand elsewhere."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    yield home
    if (home / "postgres").is_symlink():
        shutil.rmtree((home / "postgres").readlink(), ignore_errors=True)


def test_the_services_answer_and_are_gone_after_stop(home: Path) -> None:
    services = start_services(home, durable=False)
    with psycopg.connect(services.database_url) as session:
        assert session.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
        assert session.execute("SHOW server_encoding").fetchone() == ("UTF8",)
    with psycopg.connect(services.superuser_url) as session:
        assert session.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,)
    with redis.Redis.from_url(services.redis_url) as client:
        assert client.ping()
    services.stop()
    assert services.postgres.poll() is not None
    assert services.valkey.poll() is not None


def test_a_database_that_belongs_to_the_role_that_runs_gets_an_owner_of_its_own(home: Path) -> None:
    first = start_services(home)
    with psycopg.connect(first.superuser_url) as session:
        # As they were before there were two roles.
        session.execute("ALTER ROLE poisonadmin CREATEDB")
        session.execute("ALTER DATABASE poisonadmin OWNER TO poisonadmin")
        session.execute("SET LOCAL ROLE poisonadmin")
        session.execute("CREATE TABLE kept AS SELECT 1 AS one")
    first.stop()
    second = start_services(home)
    with psycopg.connect(second.database_url) as session:
        assert session.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'kept'").fetchone() == (
            "poisonadmin_owner",
        )
        assert session.execute("SELECT one FROM kept").fetchone() == (1,)
    secret = (home / "postgres-password").read_text()
    at = second.database_url.partition("@")[2]
    with psycopg.connect(f"postgresql://poisonadmin:{secret}@{at}") as session:
        session.autocommit = True
        for statement in ("SELECT FROM kept", "CREATE TABLE more ()", "CREATE DATABASE more"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement)
    second.stop()


def test_a_durable_database_keeps_its_data_and_its_promises(home: Path) -> None:
    first = start_services(home)
    with psycopg.connect(first.database_url) as session:
        session.execute("CREATE TABLE kept ()")
        for setting, value in {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}.items():
            assert session.execute(f"SHOW {setting}").fetchone() == (value,)
    first.stop()
    second = start_services(home)
    with psycopg.connect(second.database_url) as session:
        assert session.execute("SELECT to_regclass('kept') IS NOT NULL").fetchone() == (True,)
    second.stop()


def test_a_stale_postmaster_file_that_names_a_stranger_is_no_obstacle(home: Path) -> None:
    first = start_services(home)
    first.stop()
    data = data_parent(home, database_account()) / "data"
    (data / "postmaster.pid").write_text(f"{os.getppid()}\n{data}\n")
    second = start_services(home)
    second.stop()
    assert psutil.pid_exists(os.getppid())


def test_the_database_runs_unprivileged_on_files_that_only_it_can_read(home: Path) -> None:
    services = start_services(home)
    process = psutil.Process(services.postgres.pid)
    account = database_account()
    expected = account.user_id if account else os.geteuid()
    assert set(process.uids()) == {expected} != {0}
    data = data_parent(home, account) / "data"
    assert (data.stat().st_uid, stat.S_IMODE(data.stat().st_mode)) == (expected, 0o700)
    assert home.stat().st_mode & 0o077 == 0, "the directory in which the test stands was opened to others"
    services.stop()
