"""The tables of an empty database, or those of a database that former migrations made, changed into them."""

from collections.abc import Sequence

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation
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
        to_state: ProjectState,
    ) -> None:
        """Make the tables, or take them over."""
        with schema_editor.connection.cursor() as cursor:
            is_former = "message" in schema_editor.connection.introspection.table_names(cursor)
        if is_former:
            schema_editor.execute(self._takeover, params=None)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
