"""Refusals that who decides may waive: to deliver such a message may be to process it twice, or too late."""

from collections.abc import Sequence
from enum import StrEnum

from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.params import InvalidOperation


class Waivable(StrEnum):
    """NEWER_DELIVERED: a newer message with one of its business keys was delivered where it would go.
    MAY_HAVE_BEEN_PROCESSED: its consumer may have, or has, processed it."""

    NEWER_DELIVERED = "newer_delivered"
    MAY_HAVE_BEEN_PROCESSED = "may_have_been_processed"


WAIVABLE = tuple(map(str, Waivable))


def checked_waive(codes: Sequence[str], action: OperationAction) -> list[str]:
    """Return the codes that are waived, each once. Errors: `InvalidOperation`.

    >>> checked_waive(["newer_delivered"], OperationAction.APPROVE)
    ['newer_delivered']
    """
    if codes and action not in DELIVERING:
        raise InvalidOperation("waive", f"has no meaning for {action}, which delivers nothing.")
    if unknown := set(codes) - set(WAIVABLE):
        raise InvalidOperation("waive", f"{min(unknown)[:100]!r} is none of {', '.join(WAIVABLE)}.")
    return sorted(set(codes))
