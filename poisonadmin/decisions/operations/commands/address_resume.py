"""Resuming an address without the message that stopped it, which an operation quarantines."""

from django.db import transaction

from poisonadmin.addresses.commands import NotOnAddress, resume
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.store.models.message import Message


def resume_without(name: str, message_id: int, *, principal: Principal, reason: str) -> int | None:
    """Make a message of the address NDLV `quarantined`, then deliver from the address again.

    Return the operation where it waits for a sign-off: the address is as it was; None where it delivers again.
    Errors: `NotAllowed`, `NotFound`, `AddressStatusConflict`, `NotOnAddress`, `InvalidOperation`, and those of
    `decisions.only`.
    """
    principal.require(Permission.PAUSE)
    if not principal.sees(name):
        raise NotFound(f"There is no address {name}.")
    with transaction.atomic():
        if not Message.objects.filter(id=message_id, address__name=name).exists():
            raise NotOnAddress(f"The message {message_id} is not on {name}; nothing was done.")
        decided = decide_on([message_id], OperationAction.QUARANTINE, principal=principal, reason=reason, is_one=True)
        with transaction.atomic():
            resume(name, principal=principal, reason=reason)
            if decided.awaits is not None:
                transaction.set_rollback(True)  # it would be delivered, and stop the address again
    return decided.awaits
