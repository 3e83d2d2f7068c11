"""Roles and what each may do; every check, of the API and of the dashboard, ends here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from poisonadmin.core.domain.addresses import ANY_WORDS, ONE_WORD, matches
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError


class Permission(StrEnum):
    """The permissions that requests need. A token's scopes are a subset of these."""

    READ = "read"
    READ_PAYLOAD = "read_payload"
    REVEAL = "reveal"
    INGEST = "ingest"
    DECIDE = "decide"
    SIGN_OFF = "sign_off"
    BREAK_GLASS = "break_glass"
    PAUSE = "pause"
    EXPORT = "export"
    CONFIGURE = "configure"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


_OPERATOR = frozenset(Permission) - {Permission.SIGN_OFF, Permission.BREAK_GLASS, Permission.CONFIGURE}
PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: _OPERATOR,
    Role.REVIEWER: _OPERATOR | {Permission.SIGN_OFF},
    Role.ADMIN: frozenset(Permission),
}


def roles_with(permission: Permission) -> list[Role]:
    """Return the roles that include the permission.

    >>> [str(role) for role in roles_with(Permission.SIGN_OFF)]
    ['reviewer', 'admin']
    """
    return [role for role, held in PERMISSIONS.items() if permission in held]


class NotAllowed(PoisonAdminError):
    """Raised when the caller's role or token does not include the permission."""

    code = "not_allowed"
    status = 403


class OutOfScope(NotFound):
    """Raised when a configuration names what its author does not see: as if it were not there, and it may not be.

    `field` is where it is named.
    """

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"There is no {what}.")
        self.field = field


@dataclass(frozen=True)
class Principal:
    """The caller of a request. `patterns` empty means every address; several lists (the user's and the token's) must
    all match.

    `account` is the token, or the user of a session, and nobody else ever: names may be alike, and be given again.
    `user` is the user behind it, whose other tokens and sessions have the same. `owner`: the name under which it keeps
    things, where that is another: the user's, of a token that is not limited to fewer addresses.
    """

    name: str
    role: Role
    permissions: frozenset[Permission]
    patterns: tuple[tuple[str, ...], ...] = ()
    account: str = ""
    user: str = ""
    owner: str = ""

    @property
    def own_names(self) -> list[str]:
        """The names under which its own things are kept, the one for new things first."""
        return [self.owner or self.name, self.name]

    @property
    def person(self) -> str:
        """The person behind the session or token; a caller that is no user has a name only."""
        return self.user or self.name

    def has_made(self, account: str) -> bool:
        """Return whether what is kept under an account, or a person, was made by this one or the person behind it."""
        return account in (self.account or self.person, self.person)

    def may(self, permission: Permission) -> bool:
        """Return whether the permission is held."""
        return permission in self.permissions

    def require(self, permission: Permission) -> None:
        """Raise NotAllowed unless the permission is held."""
        if permission not in self.permissions:
            raise NotAllowed(f"This needs the permission {permission}, which {self.name} does not have.")

    def require_any(self, *permissions: Permission) -> None:
        """Raise NotAllowed unless one of the permissions is held."""
        if not self.permissions.intersection(permissions):
            raise NotAllowed(f"This needs the permission {' or '.join(permissions)}, which {self.name} does not have.")

    @property
    def as_reader(self) -> "Principal":
        """The same with leave to read: who may act is shown what he acts on."""
        return replace(self, permissions=self.permissions | {Permission.READ})

    def sees(self, address: str) -> bool:
        """Return whether the address is in scope. Out of scope reads as absent (404), never as forbidden."""
        return all(any(matches(pattern, address) for pattern in some) for some in self.patterns if some)

    def require_seen(self, address: str, *, field: str) -> None:
        """Raise OutOfScope unless the address, which `field` of a configuration names, is in scope."""
        if not self.sees(address):
            raise OutOfScope(field, f"address {address}")

    def covers(self, pattern: str) -> bool:
        """Return whether every address that the pattern matches is in scope.

        >>> principal("pat", Role.ADMIN, ["orders.*"]).covers("orders.#")
        False
        """
        longest = max((len(one.split(".")) for some in self.patterns for one in some), default=0)
        # Any run of words that no pattern names stands for what a wildcard may match.
        examples = (_example(pattern, run) for run in range(longest + 2))
        return all(self.sees(example) for example in examples if example)

    def covers_all(self, patterns: Sequence[str]) -> bool:
        """Return whether an account with these patterns, none for every address, stays within this one's scope."""
        return all(map(self.covers, patterns)) if patterns else self.sees_everything

    def holds(self, role: Role) -> bool:
        """Return whether everything that the role may do is held."""
        return PERMISSIONS[role] <= self.permissions

    def require_cover(self, pattern: str) -> None:
        """Raise NotAllowed unless every address that the pattern matches is in scope."""
        if not self.covers(pattern):
            raise NotAllowed(f"The pattern {pattern} reaches beyond the addresses that {self.name} is limited to.")

    @property
    def sees_everything(self) -> bool:
        """Return whether no address pattern limits this principal."""
        return not any(self.patterns)


def _example(pattern: str, run: int) -> str:
    """Return an address that the pattern matches, `#` standing for `run` words."""
    unnamed = "\N{MIDDLE DOT}"
    words = [
        [unnamed] * run if word == ANY_WORDS else [unnamed if word == ONE_WORD else word] for word in pattern.split(".")
    ]
    return ".".join(word for some in words for word in some)


def principal(name: str, role: Role, patterns: Sequence[str] = ()) -> Principal:
    """Return the principal of a user with a role, limited to `patterns` where there are any."""
    return Principal(name, role, PERMISSIONS[role], (tuple(patterns),) if patterns else ())


SYSTEM = Principal("system", Role.ADMIN, frozenset(Permission))
