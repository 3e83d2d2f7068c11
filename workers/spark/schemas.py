"""The shapes of the rows that Spark jobs hand back to their drivers."""

# One row a part. `outcome` is a `Staging`; `error` is null for a part that is staged.
STAGED_PART = "part long, outcome string, staged long, rejected long, error string"
# One row a part of a file that was cut.
NEWLINES = "part long, newlines long"
