"""Hides the secret headers of a destination in what its consumer answers, which may be what it was sent."""

import base64
import binascii
from collections.abc import Iterable

HIDDEN = "[secret]"
# Shorter ones stand in many words: hiding them would tell what they are.
MIN_CHARS = 6


class Hiding:
    """The values of a destination's secret headers, and what to put in their place."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {text for value in values for text in _forms(value) if len(text) >= MIN_CHARS}
        self._texts = sorted(found, key=len, reverse=True)
        # An answer is cut off; so much more of it is to be read that no secret is cut in two.
        self.margin = max((len(text.encode()) for text in self._texts), default=0)

    def in_text(self, text: str) -> str:
        """Return the text without the secrets."""
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return text

    def in_bytes(self, data: bytes, limit: int) -> bytes:
        """Return the first `limit` bytes, without the secrets."""
        for secret in self._texts:
            data = data.replace(secret.encode(), HIDDEN.encode())
        return data[:limit]


def _forms(value: str) -> Iterable[str]:
    """Yield the value of a header and what of it is the credential: behind the scheme, and of `Basic` in plain.

    >>> list(_forms("Basic dXNlcjpwYXNzd29yZA=="))
    ['Basic dXNlcjpwYXNzd29yZA==', 'dXNlcjpwYXNzd29yZA==', 'user:password', 'password']
    >>> list(_forms("Bearer abcdefgh"))
    ['Bearer abcdefgh', 'abcdefgh']
    """
    yield value
    scheme, _, credential = value.partition(" ")
    if credential := credential.strip():
        yield credential
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(credential, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield plain
        yield plain.partition(":")[2]
