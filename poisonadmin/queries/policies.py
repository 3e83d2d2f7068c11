"""Policies as written, what they come to on an address, and the delays they would give."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.domain.access import Permission, Principal
from poisonadmin.domain.addresses import validate_address
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.domain.policy import Policy, warnings
from poisonadmin.domain.redelivery import delay_ms, jitter
from poisonadmin.domain.resolution import PolicySpec, Resolved, resolve
from poisonadmin.queries.addresses import AddressNotFound
from poisonadmin.queries.paging import MAX_ID
from poisonadmin.queries.policy_book import book
from poisonadmin.queries.rows import fetch, fetch_one

MAX_PREVIEW = 1000


class PolicyNotFound(PoisonAdminError):
    """Raised when there is no such policy, or when its pattern reaches outside the caller's scope."""

    code = "not_found"
    status = 404


@dataclass(frozen=True)
class PolicyView:
    """A policy as an administrator wrote it: what it sets where its pattern matches."""

    id: int
    match: str
    preset: str | None
    settings: Mapping[str, Any]
    destination: str | None
    version: int
    updated_by: str
    updated_at: datetime

    @property
    def etag(self) -> str:
        """What `If-Match` is compared with."""
        return f'"{self.version}"'


@dataclass(frozen=True)
class Preview:
    """The wait before each redelivery in milliseconds, and what looks wrong with the policy."""

    delays_ms: tuple[int, ...]
    warnings: tuple[str, ...]


_SELECT = """SELECT p.id, p.match, p.preset, p.settings, d.name AS destination, p.version, p.updated_by, p.updated_at
 FROM policy p LEFT JOIN destination d ON d.id = p.destination_id"""


def list_policies(*, principal: Principal) -> list[PolicyView]:
    """Return the policies by pattern, of those whose pattern lies within the caller's scope."""
    principal.require(Permission.READ)
    return [row for row in fetch(PolicyView, f"{_SELECT} ORDER BY p.match") if principal.covers(row.match)]


def get_policy(policy_id: int, *, principal: Principal) -> PolicyView:
    """Return the policy; raise PolicyNotFound."""
    principal.require(Permission.READ)
    found = fetch_one(PolicyView, f"{_SELECT} WHERE p.id = %s", [policy_id]) if 0 < policy_id <= MAX_ID else None
    if found is None or not principal.covers(found.match):
        raise PolicyNotFound(f"There is no policy {policy_id}.")
    return found


def find_policy(match: str) -> PolicyView | None:
    """Return the policy of exactly this pattern, for whoever is about to write it."""
    return fetch_one(PolicyView, f"{_SELECT} WHERE p.match = %s", [match])


def resolve_address(address: str, *, principal: Principal) -> Resolved:
    """Return the values in force on the address, known or not, and where each comes from.

    Raise InvalidAddress; AddressNotFound out of scope.
    """
    principal.require(Permission.READ)
    validate_address(address)
    if not principal.sees(address):
        raise AddressNotFound(f"There is no address {address}.")
    return book().resolve(address)


def preview(
    preset: str | None,
    settings: Mapping[str, object],
    failures: int,
    *,
    principal: Principal,
    message_id: int | None = None,
) -> Preview:
    """Return the waits after the first `failures` failures, jittered as for the message where one is given.

    The values are those of `#` with the preset and the settings over them.
    Raise UnknownPreset, UnknownSetting, InvalidSetting.
    """
    principal.require(Permission.READ)
    policy = resolve([PolicySpec("#", preset, settings)], "preview").policy
    return Preview(tuple(_delay(policy, number, message_id) for number in range(1, failures + 1)), warnings(policy))


def _delay(policy: Policy, number: int, message_id: int | None) -> int:
    if message_id is None:
        return delay_ms(policy, number)
    sign, fraction = jitter(message_id, number)
    return delay_ms(policy, number, sign=sign, fraction=fraction)
