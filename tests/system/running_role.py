"""What the role that PoisonAdmin runs as may do, and what it must be refused."""

import psycopg
import pytest

REFUSED = (
    "UPDATE history SET actor = 'nobody'",
    "DELETE FROM history",
    "TRUNCATE history",
    "UPDATE audit SET actor = 'nobody'",
    "DELETE FROM audit",
    "TRUNCATE audit",
    "UPDATE audit_seal SET chain_hash = row_hash",
    "DELETE FROM audit_seal",
    "TRUNCATE audit_seal",
    "TRUNCATE message CASCADE",
    "ALTER TABLE history DISABLE TRIGGER USER",
    "ALTER TABLE message ADD COLUMN more text",
    "DROP TABLE audit",
    "CREATE TABLE own ()",
    "CREATE DATABASE own",
    "CREATE ROLE own",
    "DELETE FROM django_migrations",
    "SET session_replication_role = replica",
    "SET ROLE poisonadmin_owner",
)
ALLOWED = (
    "INSERT INTO audit (actor, action, object_type, object_id, details) VALUES ('pat', 'look', 'role', '1', '{}')",
    "CREATE TEMPORARY TABLE own ON COMMIT DROP AS SELECT 1",
    "LISTEN something",
    "SELECT nextval('history_seq'), * FROM history",
    "DELETE FROM message WHERE id = -1",
    "SELECT objid FROM pg_locks",
)


def assert_only_runs(url: str) -> None:
    """Fail unless the role of `url` may do what PoisonAdmin needs, and neither rewrite the past nor change tables."""
    with psycopg.connect(url, autocommit=True) as session:
        # Whoever may write a row can switch the triggers off for a session: rights alone hold.
        session.execute("SET pgtrigger.ignore = '{history:append_only,audit:append_only,history:never_emptied}'")
        for statement in REFUSED:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement)
        for statement in ALLOWED:
            session.execute(statement)
        with session.cursor().copy("COPY body FROM STDIN"):
            pass
