"""What is only kept for a while, and is no message: idempotency keys, ended jobs, claims and nodes of redelivery."""

from django.db import connection

from poisonadmin.operations.ingest_sweep import sweep_orphans

_STATEMENTS = (
    "DELETE FROM idempotency_key WHERE created_at < now() - interval '1 day'",
    # The attempts keep what was delivered when and to whom; the rows of the machinery are kept for looking into
    # trouble.
    "DELETE FROM job WHERE kind = 'redeliver' AND state = 'succeeded' AND finished_at < now() - interval '2 days'",
    "DELETE FROM node WHERE ended_at < now() - interval '7 days' AND \"end\" <> 'lost'",
    "DELETE FROM claim WHERE NOT is_open AND claimed_at < now() - interval '7 days'",
    "DELETE FROM worker WHERE heartbeat_at < now() - interval '1 day'",
)


def clean_up() -> None:
    """Remove what has had its time, and what intake left behind.

    Idempotency keys after a day, ended redelivery jobs after two, claims and nodes after a week.
    """
    with connection.cursor() as cursor:
        for statement in _STATEMENTS:
            cursor.execute(statement)
    sweep_orphans()
