"""Grants the role that PoisonAdmin runs as what it needs of tables that another role owns."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from psycopg import sql

from poisonadmin.store.models.constraints import APPEND_ONLY, KEPT_BUT_PAYLOADS, KEPT_WITH_MESSAGE

# It adds to what has happened, and changes none of it; what only migrations write it reads.
_GRANTS = """
GRANT USAGE ON SCHEMA public TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
REVOKE UPDATE, DELETE ON {append_only} FROM {role};
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role};
GRANT EXECUTE ON FUNCTION forget_kept_rows(text, bigint[]), empty_former_payloads(bigint[]) TO {role};
"""
# What statements about many messages join (search/commands/selections.py).
ANALYZED = ("message", "envelope", "attempt", "history", "business_key", "confirmation", "lane", "address")
_MAY_ANALYZE = "GRANT MAINTAIN ON {analyzed} TO {role}"
_HAS_MAINTAIN = (17,)


@contextmanager
def as_owner() -> Iterator[str | None]:
    """Use the default connection as the role of MIGRATION_DATABASE_URL.

    Yields the name of the role of DATABASE_URL; None where the two are one, and nothing changes.
    """
    running, owner = dict(connection.settings_dict), settings.MIGRATION_DATABASE
    if not owner or owner["USER"] == running["USER"]:
        yield None
        return
    connection.close()
    connection.settings_dict.update(owner)
    try:
        yield running["USER"]
    finally:
        connection.close()
        connection.settings_dict.update(running)


def grant_to(role: str) -> None:
    """Give the role that PoisonAdmin runs as what it needs; call it as the owner."""
    models = apps.get_app_config("store").get_models()
    kept = (APPEND_ONLY, KEPT_BUT_PAYLOADS, KEPT_WITH_MESSAGE)
    tables = [one._meta.db_table for one in models if getattr(one._meta, "triggers", None) in kept]  # noqa: SLF001
    names = {"role": sql.Identifier(role)} | {
        name: sql.SQL(", ").join(map(sql.Identifier, some))
        for name, some in (("append_only", tables), ("analyzed", ANALYZED))
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql.SQL(_GRANTS).format(**names))
        if connection.get_database_version() >= _HAS_MAINTAIN:
            cursor.execute(sql.SQL(_MAY_ANALYZE).format(**names))
