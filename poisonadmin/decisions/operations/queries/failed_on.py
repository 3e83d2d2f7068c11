"""The versions of their consumer that the members of an operation failed on."""

from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.decisions.operations.domain.awaited_version import FailedOn
from poisonadmin.messages.domain.outcomes import MemberOutcome

_FAILED_ON = """
SELECT outcome, consumer_version, failed_group_id, count(*)
FROM (
    SELECT result.outcome, result.failed_group_id, (
        SELECT consumer_version FROM attempt
        WHERE attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number) AS consumer_version
    FROM operation_result AS result JOIN message ON message.id = result.message_id
    WHERE result.operation_id = %s AND result.outcome IN ('failed_same', 'failed_new', 'blacklisted')
) AS failed GROUP BY 1, 2, 3
"""


def failed_on(operation_id: int) -> list[FailedOn]:
    """Return how many members have failed again with each version of their consumer, by outcome and group."""
    return [
        FailedOn(MemberOutcome(outcome), version, group_id, count)
        for outcome, version, group_id, count in fetch_rows(_FAILED_ON, [operation_id])
    ]
