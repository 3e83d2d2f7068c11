"""Addresses paused and resumed by people."""

from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.messages.commands import decisions, schedule
from poisonadmin.store.models.message import Message


class AddressStatusConflict(PoisonAdminError):
    """Raised when an address is paused that is not ON, or resumed that is ON."""

    code = "address_status_conflict"
    status = 409


class NotOnAddress(PoisonAdminError):
    """Raised when an address is to be resumed without a message, and the message is not on it."""

    code = "not_on_address"
    status = 409


def pause(name: str, *, principal: Principal, reason: str) -> None:
    """Stop delivering from the address until it is resumed. What is under way ends; new messages wait.

    Errors: `NotAllowed`, `NotFound`, `AddressStatusConflict`.
    """
    _set_status(name, principal=principal, reason=reason, from_statuses=("ON",), to_status="PAUSED")


def resume(name: str, *, principal: Principal, reason: str, quarantine: int | None = None) -> None:
    """Deliver from the address again; with `quarantine`, without this message, which becomes NDLV `quarantined` first.

    Errors: `NotAllowed`, `NotFound`, `AddressStatusConflict`, `NotOnAddress`, and those of `decide.quarantine`.
    """
    with transaction.atomic():
        if quarantine is not None:
            _quarantine(name, quarantine, principal=principal, reason=reason)
        _set_status(name, principal=principal, reason=reason, from_statuses=("PAUSED", "STOPPED"), to_status="ON")


def _quarantine(name: str, message_id: int, *, principal: Principal, reason: str) -> None:
    if not Message.objects.filter(id=message_id, address__name=name).exists():
        raise NotOnAddress(f"The message {message_id} is not on {name}; nothing was done.")
    decisions.only(decisions.quarantine([message_id], principal=principal, reason=reason), message_id)


_SET_STATUS = """
UPDATE address SET status = %(to)s, status_by = %(actor)s, status_note = %(reason)s, status_message_id = NULL,
                   status_at = now()
WHERE name = %(name)s AND status = ANY(%(from)s) RETURNING id
"""


def _set_status(
    name: str, *, principal: Principal, reason: str, from_statuses: tuple[str, ...], to_status: str
) -> None:
    principal.require(Permission.PAUSE)
    if not principal.sees(name):
        raise NotFound(f"There is no address {name}.")
    values: dict[str, Any] = {
        "to": to_status,
        "actor": principal.name,
        "reason": reason,
        "name": name,
        "from": list(from_statuses),
    }

    def set_once() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_SET_STATUS, values)
            changed = cursor.fetchone()
            if changed is None:
                raise _why_not(cursor, name)
            schedule.reopen(cursor, [changed[0]])
            audit.record(principal.name, f"address.{to_status.lower()}", "address", name, note=reason)

    retried(set_once)


def _why_not(cursor: CursorWrapper, name: str) -> PoisonAdminError:
    cursor.execute("SELECT status FROM address WHERE name = %s", [name])
    row = cursor.fetchone()
    if row is None:
        return NotFound(f"There is no address {name}.")
    return AddressStatusConflict(f"The address {name} is {row[0]} already.")
