"""An HTTP destination as a task uses it, made from its configuration and its secrets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from poisonadmin.destinations.domain.http_config import DEFAULTS, validate_headers, validate_http_config
from poisonadmin.destinations.domain.http_headers import COPIED_BY_DEFAULT


@dataclass(frozen=True)
class HttpDestination:
    """Where to send and how. `concurrency`: requests at once in this task. `headers` include the secret ones.

    `broken`: why the configuration cannot be used; each delivery then fails with that.
    """

    id: int
    name: str
    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_ms: int = 30_000
    concurrency: int = 64
    verify_tls: bool = True
    copy_headers: tuple[str, ...] = COPIED_BY_DEFAULT
    crash_on: str | None = None
    broken: str | None = None


def parse_http_config(
    config: Mapping[str, Any],
    secrets: Mapping[str, Any] | None = None,
    *,
    id: int = 0,  # noqa: A002
    name: str = "",
    concurrency: int | None = None,
) -> HttpDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    `secrets` are further headers, which win over those of the configuration. `concurrency`: this task's share of the
    configured one.
    """
    wanted = DEFAULTS | validate_http_config(config)
    hidden = validate_headers(secrets or {}, field="secrets")
    secret_names = {name.lower() for name in hidden}
    shown = {name: value for name, value in wanted["headers"].items() if name.lower() not in secret_names}
    return HttpDestination(
        id=id,
        name=name,
        url=wanted["url"],
        method=wanted["method"],
        headers=shown | hidden,
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if concurrency is None else concurrency,
        verify_tls=wanted["verify_tls"],
        copy_headers=tuple(wanted["copy_headers"]),
        crash_on=wanted["crash_on"],
    )
