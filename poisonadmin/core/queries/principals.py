"""From whoever is logged in to what they may do."""

from typing import Any

from poisonadmin.core.domain.access import Principal, Role, principal
from poisonadmin.store.models.access import Access


def principal_of_user(user: Any) -> Principal | None:
    """Return the principal of a logged-in, active user; None for anyone else and for a user without a role."""
    if not user.is_authenticated or not user.is_active:
        return None
    access = Access.objects.filter(user_id=user.pk).first()
    if access is None:
        return None
    return principal(user.get_username(), Role(access.role), access.address_patterns)
