"""What every state change leaves behind, written by the same statement: a history row a message, and counter deltas.

A statement that changes states names its changed rows in a common table expression `changed` with the columns id,
address_id, state, reason, group_id, attempt_number, event, and was_address_id, was_state, was_reason, was_group_id:
what each was before (was_state NULL: it was not here). Then it appends `RECORDED`.
"""


def recorded(note: str = "%(note)s") -> str:
    """Return what follows `changed AS (…)` inside a WITH. It needs the parameter `actor`.

    `note`: an expression over the columns of `changed`, for rows that do not share one.
    """
    return f"""
    recorded_history AS (
        INSERT INTO history (message_id, from_state, to_state, event, reason, attempt_number, actor, note)
        SELECT id, was_state, state, event, reason, attempt_number, %(actor)s, {note} FROM changed
    ),
    recorded_counts AS (
        INSERT INTO counter_delta (address_id, state, reason, group_id, delta)
        SELECT address_id, state, reason, group_id, sum(delta) FROM (
            SELECT address_id, state, reason, group_id, count(*) AS delta FROM changed GROUP BY 1, 2, 3, 4
            UNION ALL
            SELECT was_address_id, was_state, was_reason, was_group_id, -count(*) FROM changed
            WHERE was_state IS NOT NULL GROUP BY 1, 2, 3, 4
        ) AS both_sides
        GROUP BY 1, 2, 3, 4 HAVING sum(delta) <> 0
    )
"""  # noqa: S608  (the expressions are constants)


# Needs the parameters `actor` and `note`.
RECORDED = recorded()
