"""Tables that take new rows, and nothing else."""

import pgtrigger

# They refuse UPDATE, DELETE and TRUNCATE to everybody, the owner of the table too.
APPEND_ONLY = (
    pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
    pgtrigger.Trigger(
        name="never_emptied",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
    ),
)
