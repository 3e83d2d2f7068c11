"""A handler that says what it was given, so that a test can compare it with what came in."""

import hashlib

from poisonadmin_handler import Message


def handle(message: Message) -> None:
    """Print the payload's length and digest, and the ids."""
    print(len(message.payload), hashlib.sha256(message.payload).hexdigest(), message.id, message.attempt)
