"""The figures that are kept by day and address, beside the states in which messages ended."""

KEPT_MONTHS = 25
FAILURES = "failures"
DECISIONS = "decisions"
DECISION_SECONDS = "decision_seconds"
# With the number of the try behind them; what comes after `MOST_ATTEMPTS` counts as that one.
DELIVERED = "delivered:"
NOT_DELIVERED = "not_delivered:"
MOST_ATTEMPTS = 1000
