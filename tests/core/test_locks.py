"""Locks of a session: let go of, also where the session is gone."""

import pytest
from django.db import connection

from poisonadmin.core.commands.locks import Tick, shared, single_flight
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values

pytestmark = pytest.mark.django_db(transaction=True)
_HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"


@pytest.mark.parametrize("taken", [lambda: single_flight(Tick.FOLD), lambda: shared(Lock.TABLES)])
def test_a_lock_is_let_go_of_and_may_be_lost_with_its_session(taken) -> None:
    with taken() as is_taken:
        assert is_taken
        assert fetch_values(_HELD) == [1]
    assert fetch_values(_HELD) == [0]

    other = connection.copy()
    try:
        with taken() as is_taken:
            assert is_taken
            (session,) = fetch_values("SELECT pg_backend_pid()")
            with other.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [session])
                assert cursor.fetchone() == (True,)
    finally:
        other.close()
    # The next user has a session that works, and the lock is free.
    with taken() as is_taken:
        assert is_taken
        assert fetch_values("SELECT pg_backend_pid()") != [session]
