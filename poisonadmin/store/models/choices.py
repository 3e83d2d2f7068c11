"""Check constraints made from the domain's enums, so that the database and the code cannot disagree."""

from collections.abc import Iterable

from django.db import models


def only_values_of(field: str, values: Iterable[str], *, nullable: bool = False) -> models.CheckConstraint:
    """Return a constraint `<table>_<field>_known`: `field` is one of `values` (or NULL where `nullable`)."""
    condition = models.Q(**{f"{field}__in": sorted(str(value) for value in values)})
    if nullable:
        condition |= models.Q(**{f"{field}__isnull": True})
    return models.CheckConstraint(condition=condition, name=f"%(class)s_{field}_known")
