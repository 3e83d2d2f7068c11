"""Restart jobs of earlier versions go on: with an action, a reason, their owner's account, their counts and runs."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "0017_operations"
USERS = """
INSERT INTO auth_user (id, username, password, is_superuser, is_staff, is_active, first_name, last_name, email,
                       date_joined)
VALUES (7, 'pat', '', FALSE, FALSE, TRUE, '', '', '', now()), (8, 'new', '', FALSE, FALSE, TRUE, '', '', '', now());
INSERT INTO api_token (id, user_id, name, digest, scopes, address_patterns) VALUES (3, 7, 'ci', 'd', '{}', '{}');
"""
JOBS = """
INSERT INTO restart_job (id, name, schedule, filter, is_enabled, next_at, owner, updated_at, last_at, last_counts,
                         run_after_id)
VALUES (1, 'by pat', '0 4 * * *', '{}', TRUE, '2100-01-01', 'pat', clock_timestamp(), now(),
        '{"approved": 4, "refused": 1}', 12),
       (2, 'by a token', '0 4 * * *', '{}', FALSE, '2100-01-01', 'pat via ci', clock_timestamp(), NULL, '{}', NULL),
       (3, 'by a name given again', '0 4 * * *', '{}', TRUE, '2100-01-01', 'new', now() - interval '1 y', NULL, '{}',
        NULL),
       (4, 'by a sample', '0 4 * * *', '{}', TRUE, '2100-01-01', 'system', now(), NULL, '{}', NULL);
INSERT INTO restart (restart_job_id, message_id, times) VALUES (1, 12, 3);
INSERT INTO job (kind, state, params, counts, requested_by) VALUES ('restart', 'succeeded', '{}', '{}', 'system'),
                                                                    ('ingest', 'succeeded', '{}', '{}', 'pat');
"""


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    """Yield the URL of a database without tables."""
    name = f"upgraded_{secrets.token_hex(4)}"
    at = conninfo_to_dict(services.superuser_url)
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        login = f"{at['user']}:{at['password']}" if at.get("password") else at["user"]
        yield f"postgresql://{login}@{at['host']}:{at['port']}/{name}"
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(url: str, *target: str) -> None:
    """Run `manage.py migrate`."""
    command = [sys.executable, "manage.py", "migrate", *target, "--no-input", "--verbosity", "0"]
    environment = os.environ | {"DATABASE_URL": url}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_jobs_of_before_are_taken_over(url: str) -> None:
    migrate(url, "store", BEFORE)
    migrate(url, "auth")
    with psycopg.connect(url) as session:
        session.execute(USERS)
        session.execute(JOBS)
    migrate(url)
    with psycopg.connect(url) as session:
        jobs = session.execute(
            "SELECT action, reason, owner_account, is_enabled, next_at < '2100-01-01' FROM restart_job ORDER BY id"
        ).fetchall()
        runs = session.execute("SELECT restart_job_id, outcome, detail, operation_id FROM restart_run").fetchall()
        counts = session.execute("SELECT * FROM restart").fetchall()
        kinds = session.execute("SELECT kind FROM job").fetchall()
    why = "restarted by schedule"
    assert jobs == [
        ("approve", why, "user 7", True, True),
        ("approve", why, "token 3", False, False),
        ("approve", why, "unknown", True, False),
        ("approve", why, "", True, False),
    ]
    assert runs == [(1, "begun", "4 approved, 1 left alone, before runs were operations.", None)]
    assert counts == [(1, 12, 3)]
    assert kinds == [("ingest",)]
