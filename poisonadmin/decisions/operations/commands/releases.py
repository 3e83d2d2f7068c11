"""Resuming an address and releasing a bookmark, each with an operation on the messages concerned."""

from django.db import connection, transaction

from poisonadmin.addresses.commands import NotOnAddress, resume
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.commands.refused_decisions import NotListed
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.messages.commands import poison_entries as entries
from poisonadmin.poison_list.queries.entries import EntryRow, get_entry, stopped_messages
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


def release_bookmark(entry_id: int, *, principal: Principal, reason: str) -> int | None:
    """Take a bookmark off the list, for every consumer; its counts start again at 0.

    The messages that it stopped are released along with it; one that cannot go anywhere stays as it is. Return the
    operation on them where it waits for a sign-off, and nothing was done; None where it is done.
    Errors: `NotAllowed`, `NotFound`, `NotListed`, `InvalidOperation`. Source: AMPS-f, AMPS-h, R7.
    """
    principal.require(Permission.DECIDE)
    entry = get_entry(entry_id, principal=principal.as_reader)
    changed: tuple[int, ...] = ()
    if stopped := stopped_messages(entry_id):
        decided = decide_on(stopped, action_of(entry), reason=reason, principal=principal)
        if decided.awaits is not None:
            return decided.awaits
        changed = decided.changed

    def release_once() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            # That of a message has released it already; what is left is where nothing could be decided on.
            released = entries.release(cursor, [entry_id], actor=principal.name, note=reason)
            if not (released or changed):
                raise NotListed("This bookmark is not listed, and nothing is counted against it.")

    retried(release_once)
    return None


def action_of(entry: EntryRow) -> OperationAction:
    """Return what releasing the entry does with the messages that it stopped."""
    return OperationAction.RELEASE if entry.is_listed else OperationAction.APPROVE
