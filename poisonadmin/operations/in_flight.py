"""What is under way: the messages of open claims that are still DLNG."""

# A FROM clause with `taken` (claim_id, shard, message_id) and `message`. Claims are few and name their messages, so
# that no index has to change with a state. The subquery is a fence: the planner takes the names first and looks each
# message up.
IN_FLIGHT = """
(SELECT claim.id AS claim_id, claim_shard.shard, unnest(claim_shard.message_ids) AS message_id
 FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id WHERE claim.is_open) AS taken
JOIN message ON message.id = taken.message_id AND message.claim_id = taken.claim_id AND message.state = 'DLNG'
"""
