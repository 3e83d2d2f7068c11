"""Constraints and triggers that tables share."""

from collections.abc import Iterable

import pgtrigger
from django.db import models


def only_values_of(field: str, values: Iterable[str], *, nullable: bool = False) -> models.CheckConstraint:
    """Return a constraint `<table>_<field>_known`: `field` is one of `values` (or NULL where `nullable`)."""
    condition = models.Q(**{f"{field}__in": sorted(str(value) for value in values)})
    if nullable:
        condition |= models.Q(**{f"{field}__isnull": True})
    return models.CheckConstraint(condition=condition, name=f"%(class)s_{field}_known")


_NEVER_EMPTIED = pgtrigger.Trigger(
    name="never_emptied",
    level=pgtrigger.Statement,
    when=pgtrigger.Before,
    operation=pgtrigger.Truncate,
    func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
)
# They refuse UPDATE, DELETE and TRUNCATE to everybody, the owner of the table too.
APPEND_ONLY = (
    pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
    _NEVER_EMPTIED,
)
_GOES_WITH_MESSAGE = pgtrigger.Trigger(
    name="goes_with_message",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Delete,
    referencing=pgtrigger.Referencing(old="gone"),  # type: ignore[no-untyped-call]
    declare=[("first", "bigint"), ("last", "bigint")],
    func="""
            SELECT min(message_id), max(message_id) INTO first, last FROM gone;
            IF EXISTS (SELECT FROM gone WHERE message_id IN (SELECT id FROM message WHERE id BETWEEN first AND last))
               OR EXISTS (SELECT FROM gone WHERE message_id NOT IN (
                   SELECT id FROM archived_message WHERE id BETWEEN first AND last
                   UNION ALL SELECT id FROM erased_message WHERE id BETWEEN first AND last))
            THEN
                RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;
            END IF;
            RETURN NULL;
        """,
)
# The same for rows of messages; those of a message go with it once it is archived or erased, and with nothing else.
KEPT_WITH_MESSAGE = (
    pgtrigger.Protect(name="append_only", operation=pgtrigger.Update),
    _NEVER_EMPTIED,
    _GOES_WITH_MESSAGE,
)
# Of these, what is removed from a message's body is removed from what it held before, too; and nothing else changes.
KEPT_BUT_PAYLOADS = (
    pgtrigger.Trigger(
        name="append_only",
        when=pgtrigger.Before,
        operation=pgtrigger.Update,
        func="""
            IF octet_length(NEW.payload) = 0 AND to_jsonb(NEW) - 'payload' = to_jsonb(OLD) - 'payload'
               AND EXISTS (SELECT FROM removed_payload WHERE message_id = OLD.message_id)
            THEN
                RETURN NEW;
            END IF;
            RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;
        """,
    ),
    _NEVER_EMPTIED,
    _GOES_WITH_MESSAGE,
)
