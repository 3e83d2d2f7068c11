"""Secrets of destinations, sources, alerts and reports as the database holds them: each value is encrypted.

The first of the keys encrypts; each of them decrypts, so that a key can be replaced. The keys are read at each use: a
process need not start again for a new one. Without keys secrets are stored as they are.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TypeVar

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.secret_settings import ENCRYPTION_KEYS, FILE_OF, UnusableSecret, secret_setting

MIN_KEY_CHARS = 32
# What stands before a stored value: it is encrypted; it is as it is, although it begins like one of these.
_MARK, _PLAIN = "encrypted:", "plain:"

Secrets = TypeVar("Secrets", dict[str, str], list[str])


class UnreadableSecret(PoisonAdminError):
    """Raised when no key decrypts a stored secret."""

    code = "secret_unreadable"
    status = 503

    def __init__(self) -> None:
        super().__init__(
            f"No key in {FILE_OF[ENCRYPTION_KEYS]} decrypts a stored secret: add the key that encrypted it, or give"
            " the secret anew."
        )


def encryption_keys(environment: Mapping[str, str]) -> list[str]:
    """Return the keys, one a line, the one that encrypts first. Errors: `UnusableSecret`, which repeats none."""
    keys = secret_setting(environment, ENCRYPTION_KEYS).split()
    if any(len(key) < MIN_KEY_CHARS for key in keys):
        raise UnusableSecret(f"{ENCRYPTION_KEYS} must be keys of {MIN_KEY_CHARS} characters or more, one a line")
    return keys


def encrypted(secrets: Secrets, environment: Mapping[str, str]) -> Secrets:
    """Return secrets as they are stored. Errors: `UnusableSecret`."""
    if not (keys := _ciphers(environment)):
        return _each(secrets, lambda value: _PLAIN + value if value.startswith((_MARK, _PLAIN)) else value)
    cipher = MultiFernet(keys)
    return _each(secrets, lambda value: _MARK + cipher.encrypt(value.encode()).decode())


def decrypted(secrets: Secrets, environment: Mapping[str, str]) -> Secrets:
    """Return secrets from what is stored of them. Errors: `UnreadableSecret`, `UnusableSecret`."""

    def opened(value: str) -> str:
        if not value.startswith(_MARK):
            return value.removeprefix(_PLAIN)
        try:
            return MultiFernet(_ciphers(environment)).decrypt(value.removeprefix(_MARK)).decode()
        except (InvalidToken, ValueError):
            raise UnreadableSecret from None

    return _each(secrets, opened)


def _ciphers(environment: Mapping[str, str]) -> list[Fernet]:
    return [Fernet(urlsafe_b64encode(sha256(key.encode()).digest())) for key in encryption_keys(environment)]


def _each(secrets: Secrets, change: Callable[[str], str]) -> Secrets:
    if isinstance(secrets, dict):
        return {name: change(value) for name, value in secrets.items()}
    return [change(value) for value in secrets]
