"""What a destination of each kind may be saved with: its configuration and its secrets."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from poisonadmin.domain.brokers import BROKER_KINDS, may_keep_login, validate_broker_destination, validate_login
from poisonadmin.domain.destinations import InvalidDestination, validate_headers, validate_http_config
from poisonadmin.domain.handler_config import validate_handler_config
from poisonadmin.domain.handler_path import handler_directories, require_module
from poisonadmin.domain.ssrf import guard_from
from poisonadmin.store.models import Destination
from poisonadmin.store.models.destination import DestinationKind


def checked_config(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration as it is stored.

    A handler's module is looked for, and not imported: only a sandbox ever does that.
    Errors: `InvalidDestination`.
    """
    return _CHECKS[DestinationKind(kind)](config)


def checked_secrets(kind: str, secrets: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets as they are stored: headers for HTTP, a login for a broker, none for a handler.

    Errors: `InvalidDestination`.
    """
    if kind == DestinationKind.HANDLER:
        if secrets:
            raise InvalidDestination("secrets", "a handler is sent no headers")
        return {}
    if kind in BROKER_KINDS:
        return validate_login(secrets, refuse=InvalidDestination)
    return validate_headers(secrets, field="secrets")


def kept_secrets(before: Destination | None, kind: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets of a destination that is saved without any: those it has, where they still fit.

    Errors: `InvalidDestination` when a broker's login would go along to another place.
    """
    if before is None or before.kind != kind:
        return {}
    kept: dict[str, str] = before.secrets
    if kept and kind in BROKER_KINDS and not may_keep_login(before.config, config):
        raise InvalidDestination("secrets", "must be given again: the stored ones do not go along to another place")
    return kept


def _checked_http(config: Mapping[str, Any]) -> dict[str, Any]:
    return validate_http_config(config, guard=guard_from(os.environ))


def _checked_handler(config: Mapping[str, Any]) -> dict[str, Any]:
    checked = validate_handler_config(config)
    require_module(checked["callable"], handler_directories(os.environ))
    return checked


def _checked_broker(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return validate_broker_destination(kind, config, guard=guard_from(os.environ))


_CHECKS: Mapping[DestinationKind, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    DestinationKind.HTTP: _checked_http,
    DestinationKind.HANDLER: _checked_handler,
    **{DestinationKind(kind): partial(_checked_broker, kind) for kind in BROKER_KINDS},
}
