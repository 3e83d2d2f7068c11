"""The failure groups that are compared, and whether they have changed since."""

from collections.abc import Sequence
from dataclasses import dataclass

from poisonadmin.alike_groups.domain.proposals import ComparedGroup
from poisonadmin.core.queries.rows import fetch, fetch_values

# Fingerprints; of more, those that failed last.
MAX_COMPARED = 5_000
# First those of which people have said something, then those with most failures: they stay where others are merged.
# Of each fingerprint its oldest failure that is live: it stays the same until it is archived.
_COMPARED = """
SELECT g.id, g.seen_as, g.fingerprint, oldest.message_id, oldest.attempt_number
FROM (SELECT id, fingerprint, coalesce(merged_into_id, id) AS seen_as, failures
      FROM failure_group ORDER BY last_at DESC LIMIT %s) AS g
CROSS JOIN LATERAL (
    SELECT message_id, attempt_number FROM attempt AS t
    WHERE t.outcome <> 'delivered' AND t.fingerprint = g.fingerprint ORDER BY finished_at, message_id LIMIT 1) AS oldest
ORDER BY EXISTS (SELECT FROM group_annotation AS said WHERE said.group_id = g.seen_as AND said.revision > 0) DESC,
         sum(g.failures) OVER (PARTITION BY g.seen_as) DESC, g.seen_as, g.id
"""
_DIGEST = """
SELECT coalesce(md5(string_agg(concat_ws(' ', id, fingerprint, merged_into_id), ',' ORDER BY id)), '')
FROM failure_group
"""


@dataclass(frozen=True)
class GroupsNow:
    """The fingerprints to be compared, those first that should stay, and how many there are besides."""

    groups: Sequence[ComparedGroup]
    left_out: int


def compared_groups() -> GroupsNow:
    """Return the fingerprints to be compared: at most `MAX_COMPARED`, each with a failure that is live."""
    groups = fetch(ComparedGroup, _COMPARED, [MAX_COMPARED])
    return GroupsNow(groups, fetch_values("SELECT count(*) FROM failure_group")[0] - len(groups))


def groups_digest() -> str:
    """Return what changes when there is a new fingerprint, or groups are merged or split off."""
    found: str = fetch_values(_DIGEST)[0]
    return found
