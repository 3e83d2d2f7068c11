"""A handler destination as a task uses it, made from its configuration and the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.destinations.domain.handler_config import (
    DEFAULTS,
    HANDLER_PATH,
    UnknownSandboxUser,
    UnusableHandlerPath,
    handler_directories,
    validate_handler_config,
)
from workers.delivery.handler.sandbox.account import SandboxAccount, UnusableSandboxUser, choose_account


@dataclass(frozen=True)
class HandlerDestination:
    """A handler, and the limits of its sandboxes. These hold for one message; `concurrency`: sandboxes in this task.

    `owner`: the pattern of the addresses that it may move messages to. `roots`: the directories that it may import
    from. `account`: whom its sandboxes run as, None for the worker's own user. `broken`: why it cannot be used; each
    delivery then fails with that.
    """

    id: int
    name: str
    callable: str
    owner: str = ANY_WORDS
    memory_mb: int = DEFAULTS["memory_mb"]
    cpu_seconds: float = DEFAULTS["cpu_seconds"]
    timeout_ms: int = DEFAULTS["timeout_ms"]
    concurrency: int = DEFAULTS["concurrency"]
    roots: tuple[str, ...] = ()
    account: SandboxAccount | None = None
    broken: str | None = None


def parse_handler_config(
    config: Mapping[str, Any],
    *,
    id: int = 0,  # noqa: A002
    name: str = "",
    owner: str = ANY_WORDS,
    concurrency: int | None = None,
) -> HandlerDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    `concurrency`: this task's share of the configured one.
    """
    wanted = DEFAULTS | validate_handler_config(config)
    roots: tuple[str, ...] = ()
    account, broken = None, None
    try:
        roots = _handler_roots()
        account = choose_account(os.environ, roots).account
    except (UnusableHandlerPath, UnknownSandboxUser, UnusableSandboxUser) as error:
        broken = str(error)
    return HandlerDestination(
        id=id,
        name=name,
        callable=wanted["callable"],
        owner=owner,
        memory_mb=wanted["memory_mb"],
        cpu_seconds=wanted["cpu_seconds"],
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if concurrency is None else concurrency,
        roots=roots,
        account=account,
        broken=broken if roots or broken else f"{HANDLER_PATH} is not set where this is delivered",
    )


def _handler_roots() -> tuple[str, ...]:
    """Return the directories of POISONADMIN_HANDLER_PATH, links followed. Errors: `UnusableHandlerPath`."""
    return tuple(str(directory) for directory in handler_directories(os.environ))
