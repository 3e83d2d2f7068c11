"""A second session of the database."""

from collections.abc import Iterator

import psycopg
import pytest


@pytest.fixture
def other(test_database_url: str) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    """Return a session beside the test's, whose statements are committed at once."""
    with psycopg.connect(test_database_url, autocommit=True) as session:
        yield session
