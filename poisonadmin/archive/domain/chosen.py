"""The SQL of a piece: which of its messages are archived, and what the database has of them.

Who writes the files (workers) and who removes the rows (commands) ask the same.
"""

# `cutoffs` is JSON: [{address_id, delivered, failed, …}, …], as `ArchiveRun.cutoffs`. `after`, `until`: of the piece.
CHOSEN = """
FROM message AS m JOIN address AS a ON a.id = m.address_id
     JOIN jsonb_to_recordset(%(cutoffs)s::jsonb) AS kept (address_id bigint, delivered timestamptz, failed timestamptz)
     ON kept.address_id = m.address_id
WHERE m.id > %(after)s AND m.id <= %(until)s
  AND (m.state = 'DLVD' AND m.state_at <= kept.delivered OR m.state = 'FAIL' AND m.state_at <= kept.failed)
  AND NOT EXISTS (SELECT FROM held_message WHERE held_message.message_id = m.id)
"""

# The tables that lose rows when a message is archived, and their column with the message's id.
TABLES = {
    "message": "id",
    "envelope": "id",
    "body": "id",
    "attempt": "message_id",
    "hop": "message_id",
    "confirmation": "message_id",
    "message_owner": "message_id",
    "message_tag": "message_id",
    "history": "message_id",
    "payload_version": "message_id",
    "operation_result": "message_id",
}
# Of these, those that nobody deletes from but `forget_kept_rows`.
APPEND_ONLY = ("history", "payload_version")


def versions_of(chosen: str) -> str:
    """Return the query for what the database has of the messages whose ids are in the table `chosen`.

    Shape: name, n, versions (the sum of xmin: whatever changes a row gives it a higher one), a row a table.
    """
    return " UNION ALL ".join(
        f"SELECT '{table}' AS name, count(*) AS n, coalesce(sum(one.xmin::text::bigint), 0)::bigint AS versions"  # noqa: S608
        f" FROM {table} AS one JOIN {chosen} AS chosen ON chosen.id = one.{key}"
        f" WHERE one.{key} > %(after)s AND one.{key} <= %(until)s"
        for table, key in TABLES.items()
    )
