"""What is under way: the messages of open claims that are still DLNG."""

# Claims are few and name their messages, so that no index has to change with a state.
TAKEN = """
(SELECT claim.id AS claim_id, claim.is_isolation, claim_shard.shard, unnest(claim_shard.message_ids) AS message_id
 FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id WHERE claim.is_open) AS taken
"""

# A FROM clause with `taken` (claim_id, is_isolation, shard, message_id) and `message`. OFFSET 0 is a fence: to the
# planner, whose statistics are older than any claim, hardly a message is DLNG, and it would read the table and compare
# each of its rows with each that was taken. A statement that locks joins TAKEN in the same way and locks inside the
# LATERAL.
IN_FLIGHT = f"""
{TAKEN} CROSS JOIN LATERAL (
    SELECT * FROM message WHERE id = taken.message_id AND claim_id = taken.claim_id AND state = 'DLNG' OFFSET 0
) AS message
"""  # noqa: S608  (fragments are constants)
