"""What an action is told besides which messages it is for: checked once, and kept with the operation."""

from collections.abc import Callable, Mapping
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.operations.domain.actions import ACTIONS, OperationAction


class InvalidOperation(InvalidField):
    """Raised when a field of an operation is invalid; `field` names what is wrong."""

    code = "invalid_operation"


def checked_params(action: OperationAction, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of an action as they are kept. Errors: `InvalidOperation`.

    >>> checked_params(OperationAction.REDIRECT, {"address": "orders.repaired"})
    {'address': 'orders.repaired'}
    """
    known = ACTIONS[action].params
    for name in given or {}:
        if name not in known:
            takes = f"takes {' and '.join(known)}" if known else "takes no parameters"
            raise InvalidOperation(f"params.{name[:100]}", f"is unknown: {action} {takes}.")
    check = _CHECKS.get(action)
    return {} if check is None else check(given or {})


def _redirect(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"address": validate_address(given.get("address", ""))}
    except InvalidAddress as error:
        raise InvalidOperation("params.address", error.detail) from None


_CHECKS: dict[OperationAction, Callable[[Mapping[str, Any]], dict[str, Any]]] = {OperationAction.REDIRECT: _redirect}
