"""The policies in force, compiled once a change."""

from functools import lru_cache

from django.db import connection

from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec
from poisonadmin.store.models.policy import PolicyRow


def policy_index() -> PolicyIndex:
    """Return the policies as they stand in this transaction. Compiled again only when one has changed."""
    (state,) = fetch_rows("SELECT count(*), coalesce(max(id), 0), coalesce(sum(version), 0) FROM policy")
    return _compiled(*state, connection.settings_dict["NAME"])


def policy_index_with(spec: PolicySpec) -> PolicyIndex:
    """Return the policies as they would be with `spec` among them, in the place of the one with its pattern."""
    return PolicyIndex([*(one for one in _specs() if one.pattern != spec.pattern), spec])


@lru_cache(maxsize=2)
def _compiled(_count: int, _newest: int, _versions: int, _database: str) -> PolicyIndex:
    return PolicyIndex(_specs())


def _specs() -> list[PolicySpec]:
    rows = PolicyRow.objects.select_related("destination").order_by("id")
    return [
        PolicySpec(
            pattern=row.match,
            preset=row.preset,
            settings=row.settings,
            destination=row.destination.name if row.destination else None,
            version=row.version,
        )
        for row in rows
    ]
