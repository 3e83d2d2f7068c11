"""The failure groups that are compared, and whether they have changed since."""

from dataclasses import fields

from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.groups.alike.domain.proposals import AskedGroups, ComparedGroup
from poisonadmin.messages.queries.archived_index import files_of_pieces
from poisonadmin.runs.domain.kinds import KindName, RunState

# Fingerprints; of more, those that failed last.
MAX_COMPARED = 5_000
# First those of which people have said something, then those with most failures: they stay where others are merged.
# Of each fingerprint its oldest failure that is live: it stays the same until it is archived. Where none is live, that
# of the message with which the group began, which is in the archive then, unless it was erased.
_COMPARED = """
SELECT g.id, g.seen_as, g.fingerprint, coalesce(oldest.message_id, archived.id), oldest.attempt_number,
       archived.piece_id
FROM (SELECT id, fingerprint, coalesce(merged_into_id, id) AS seen_as, failures, sample_message_id
      FROM failure_group ORDER BY last_at DESC LIMIT %s) AS g
LEFT JOIN LATERAL (
    SELECT message_id, attempt_number FROM attempt AS t
    WHERE t.outcome <> 'delivered' AND t.fingerprint = g.fingerprint ORDER BY finished_at, message_id LIMIT 1
) AS oldest ON TRUE
LEFT JOIN archived_message AS archived ON archived.id = g.sample_message_id AND oldest.message_id IS NULL
WHERE oldest.message_id IS NOT NULL OR archived.id IS NOT NULL
ORDER BY EXISTS (SELECT FROM group_annotation AS said WHERE said.group_id = g.seen_as AND said.revision > 0) DESC,
         sum(g.failures) OVER (PARTITION BY g.seen_as) DESC, g.seen_as, g.id
"""
_DIGEST = """
SELECT coalesce(md5(string_agg(concat_ws(' ', id, fingerprint, merged_into_id), ',' ORDER BY id)), '')
FROM failure_group
"""
_SEARCHED_DIGEST = f"""
SELECT result ->> 'groups_digest' FROM run WHERE kind = '{KindName.ALIKE_GROUPS}' AND state = '{RunState.SUCCEEDED}'
ORDER BY created_at DESC, id DESC LIMIT 1
"""  # noqa: S608


def compared_groups() -> AskedGroups:
    """Return the fingerprints to be compared: at most `MAX_COMPARED`, each with a failure that is live or archived."""
    rows = fetch_rows(_COMPARED, [MAX_COMPARED])
    groups = [ComparedGroup(*row[: len(fields(ComparedGroup))]) for row in rows]
    pieces = {row[-1] for row in rows if row[-1] is not None}
    left_out = fetch_values("SELECT count(*) FROM failure_group")[0] - len(groups)
    return AskedGroups(groups, left_out, files_of_pieces(pieces, "attempts") if pieces else ())


def groups_digest() -> str:
    """Return what changes when there is a new fingerprint, or groups are merged or split off."""
    found: str = fetch_values(_DIGEST)[0]
    return found


def searched_digest() -> str | None:
    """Return the digest of the groups that there were at the last search that succeeded; None where there was none."""
    found: list[str] = fetch_values(_SEARCHED_DIGEST)
    return found[0] if found else None
