"""The messages under way: those of open claims that are still DLNG."""

# A FROM clause with `taken` (claim_id, shard, message_id) and `message`. Claims are few and name their messages, so
# that no index has to change with a state. OFFSET 0 is a fence: to the planner, whose statistics are older than any
# claim, hardly a message is DLNG, and it would read the table and compare each of its rows with each that was taken.
IN_FLIGHT = """
(SELECT claim.id AS claim_id, claim_shard.shard, unnest(claim_shard.message_ids) AS message_id
 FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id WHERE claim.is_open) AS taken CROSS JOIN LATERAL (
    SELECT * FROM message WHERE id = taken.message_id AND claim_id = taken.claim_id AND state = 'DLNG' OFFSET 0
) AS message
"""
