"""The read-only mode of the whole installation is switched on and off."""

from django.db import transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.queries.read_only import forget_mode
from poisonadmin.store.models.read_only import ReadOnlyMode


def switch_read_only(reason: str | None, *, principal: Principal) -> None:
    """Switch the mode on with a reason, which may replace another one; None switches it off. Errors: `NotAllowed`."""
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed(f"This concerns every address, and {principal.name} is limited to some.")
    with transaction.atomic():
        if reason is not None:
            defaults = {"reason": reason, "switched_on_by": principal.name, "since": Now()}
            ReadOnlyMode.objects.update_or_create(id=1, defaults=defaults)
            audit.record(principal.name, "read_only.switched_on", "read_only_mode", "", details={"reason": reason})
        elif ReadOnlyMode.objects.all().delete()[0]:
            audit.record(principal.name, "read_only.switched_off", "read_only_mode", "")
    forget_mode()
