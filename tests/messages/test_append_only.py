"""What has happened stays written: history and audit log take new rows, and nothing else."""

import pytest
from django.db import DatabaseError, connection, transaction

from poisonadmin.store.models.access import Audit
from tests.fixtures.delivery import enqueue, make_destination

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("table", ["history", "audit"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET actor = 'nobody'", "DELETE FROM {}", "TRUNCATE {}"])
def test_rows_are_neither_changed_nor_removed(table: str, statement: str) -> None:
    make_destination()
    enqueue(1)
    Audit.objects.create(actor="pat", action="approve", object_type="message", object_id="1")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        before = cursor.fetchone()
        with pytest.raises(DatabaseError, match=f"from {table} table"), transaction.atomic():
            cursor.execute(statement.format(table))
        cursor.execute(f"SELECT count(*) FROM {table}")
        assert cursor.fetchone() == before != (0,)
