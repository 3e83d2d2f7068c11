"""The tables of an empty database, or those of a database that former migrations made, changed into them."""

from collections.abc import Sequence
from itertools import groupby

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.models import IndexOperation
from django.db.migrations.state import ProjectState


class TablesOrTakeover(SeparateDatabaseAndState):
    """Makes tables where there are none, and runs `takeover` where former migrations have made theirs."""

    def __init__(self, tables: Sequence[Operation], takeover: str) -> None:
        super().__init__(database_operations=tables, state_operations=tables)
        self._takeover = takeover

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,  # noqa: ARG002  (Django gives it)
    ) -> None:
        """Make the tables, or take them over."""
        with schema_editor.connection.cursor() as cursor:
            is_former = "message" in schema_editor.connection.introspection.table_names(cursor)
        if is_former:
            schema_editor.execute(self._takeover, params=None)
        else:
            self._make_tables(app_label, schema_editor, from_state)

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the tables to the state; its classes are made when they are next asked for, once for all tables."""
        state.__dict__.pop("apps", None)
        super().state_forwards(app_label, state)

    def _make_tables(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState) -> None:
        """Make the tables, with new classes for each run of operations of one kind, and none for an index.

        Django makes those of all related tables anew for each operation, which takes longer than all else.
        """
        for kind, run in groupby(self.database_operations, type):
            operations = list(run)
            to_state = from_state
            if not issubclass(kind, IndexOperation):
                to_state = from_state.clone()
                to_state.__dict__.pop("apps", None)
                for operation in operations:
                    operation.state_forwards(app_label, to_state)
            for operation in operations:
                operation.database_forwards(app_label, schema_editor, from_state, to_state)
            from_state = to_state
