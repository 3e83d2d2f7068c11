"""What has happened stays written: history, audit log and its seals take new rows, and nothing else."""

import pytest
from django.db import DatabaseError, connection, transaction

from poisonadmin.store.models.access import Audit
from poisonadmin.system.commands.audit_seals import seal_audit
from tests.fixtures.delivery import enqueue, make_destination

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("table", "column"), [("history", "actor"), ("audit", "actor"), ("audit_seal", "row_hash")])
@pytest.mark.parametrize("statement", ["UPDATE {0} SET {1} = ''", "DELETE FROM {0}", "TRUNCATE {0}"])
def test_rows_are_neither_changed_nor_removed(table: str, column: str, statement: str) -> None:
    make_destination()
    enqueue(1)
    Audit.objects.create(actor="pat", action="approve", object_type="message", object_id="1")
    seal_audit()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        before = cursor.fetchone()
        with pytest.raises(DatabaseError, match=f"from {table} table"), transaction.atomic():
            cursor.execute(statement.format(table, column))
        cursor.execute(f"SELECT count(*) FROM {table}")
        assert cursor.fetchone() == before != (0,)
