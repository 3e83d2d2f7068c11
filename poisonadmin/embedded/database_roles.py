"""The roles of the embedded database: one owns the tables and migrates, the other is what PoisonAdmin runs as."""

import psycopg
from psycopg import sql

OWNER, RUNNING = "poisonadmin_owner", "poisonadmin"

# Databases of before there were two roles belong to the one that runs; `manage.py migrate` then gives it its rights.
_SEPARATE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {owner_name}) THEN CREATE ROLE {owner}; END IF;
    IF pg_has_role({running_name}, 'pg_monitor', 'MEMBER') THEN
        REVOKE pg_monitor, pg_checkpoint FROM {running};
    END IF;
END $$;
ALTER ROLE {owner} LOGIN CREATEDB PASSWORD {password};
ALTER ROLE {running} NOCREATEDB;
GRANT pg_monitor, pg_checkpoint TO {owner};
REASSIGN OWNED BY {running} TO {owner};
ALTER DATABASE {database} OWNER TO {owner};
"""


def separate(superuser_url: str, *, database: str, password: str) -> None:
    """Let the role `OWNER` have the database and all that is in it, and `RUNNING` nothing of it."""
    names = {"owner": OWNER, "running": RUNNING, "database": database}
    statements = sql.SQL(_SEPARATE).format(
        owner_name=sql.Literal(OWNER),
        running_name=sql.Literal(RUNNING),
        password=sql.Literal(password),
        **{key: sql.Identifier(name) for key, name in names.items()},
    )
    with psycopg.connect(superuser_url) as session:
        session.execute(statements)
