"""Signatures of webhooks. Source: the specification of Standard Webhooks, version 1."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
# The specification asks for 24 to 64.
SECRET_BYTES = 32


def secret_text(random_bytes: bytes) -> str:
    """Return a secret as its owner is given it.

    >>> secret_text(b"0123456789abcdef01234567")
    'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3'
    """
    return PREFIX + base64.b64encode(random_bytes).decode()


def signature(secrets: Sequence[str], *, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: a signature by each secret, so that one may replace another."""
    content = b".".join((webhook_id.encode(), str(timestamp).encode(), body))
    made = (hmac.new(base64.b64decode(text.removeprefix(PREFIX)), content, hashlib.sha256) for text in secrets)
    return " ".join(f"v1,{base64.b64encode(one.digest()).decode()}" for one in made)
