"""Single sign-on by OpenID Connect: the provider's settings, and what the claims of a person give."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from poisonadmin.core.domain.access import Role
from poisonadmin.core.domain.addresses import ANY_WORDS, InvalidAddress
from poisonadmin.core.domain.settings import InvalidValue
from poisonadmin.system.domain.accounts import checked_name, checked_patterns


@dataclass(frozen=True)
class SignOn:
    """A provider. `roles`: values of the claim at `roles_claim`, each with the role that it gives.

    `patterns_claim`: where the person's address patterns are; empty: every address.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    label: str
    name_claim: str
    roles_claim: str
    roles: Mapping[str, Role]
    patterns_claim: str = ""


@dataclass(frozen=True)
class Grant:
    """The account of a person: its name, if it is new, its role and its address patterns; none: every address."""

    name: str
    role: Role
    patterns: list[str]


class NotGranted(ValueError):
    """Raised when claims give no account; the text says which one is missing."""


def granted(claims: Mapping[str, Any], sign_on: SignOn) -> Grant:
    """Return what the claims give: of several roles the greatest. Errors: `NotGranted`.

    >>> keycloak = SignOn("https://id", "app", "", (), "", "name", "realm_access.roles", {"ops": Role.OPERATOR})
    >>> granted({"name": "ann", "realm_access": {"roles": ["ops", "other"]}}, keycloak)
    Grant(name='ann', role=<Role.OPERATOR: 'operator'>, patterns=[])
    """
    given = {sign_on.roles[value] for value in _texts_at(claims, sign_on.roles_claim) if value in sign_on.roles}
    if not given:
        raise NotGranted(f"the claim {sign_on.roles_claim} gives no role")
    patterns: list[str] = []
    try:
        if sign_on.patterns_claim:
            patterns = checked_patterns(_texts_at(claims, sign_on.patterns_claim))
            if not patterns:
                raise NotGranted(f"the claim {sign_on.patterns_claim} gives no address")
        [name] = _texts_at(claims, sign_on.name_claim) or [""]
        name = checked_name(name)
    except (InvalidAddress, InvalidValue) as error:
        raise NotGranted(f"a claim is no name or no address pattern: {error}") from None
    return Grant(name, max(given, key=list(Role).index), [] if ANY_WORDS in patterns else patterns)


def _texts_at(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the texts at a dotted path, or of a claim whose name has dots; a single text is a list of one.

    >>> _texts_at({"a": {"b": "x"}}, "a.b"), _texts_at({"https://e.org/r": ["y", 3]}, "https://e.org/r")
    (['x'], ['y'])
    """
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for word in path.split("."):
            found = found.get(word) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return [found]
    return [value for value in found if isinstance(value, str)] if isinstance(found, list) else []
