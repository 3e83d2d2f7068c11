"""A failure group of which people have said something, with another one merged into it."""

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.store.models.failure_group import GroupVersion


def annotate_groups() -> None:
    """Annotate the latest failure group, merge the next one into it, and have it seen with a version."""
    latest, other = list_groups(principal=SYSTEM, limit=2).results
    merge(latest.id, [other.id], principal=SYSTEM, reason="the same release")
    said = {
        "ticket_url": "https://tickets.example.org/browse/OPS-4711",
        "tags": ["payments", "release-42"],
        "note": "Since release 42 the lines are rounded one by one.\nApprove when 43 is out.",
    }
    annotate(latest.id, said, principal=SYSTEM)
    GroupVersion.objects.create(
        group_id=latest.id,
        consumer_version="42.0.1",
        address_id=1,
        first_at=latest.first_at,
        last_at=latest.last_at,
        failures=latest.failures,
    )
