"""A module that takes longer to import than a claim may take to begin."""

import time

from poisonadmin_handler import Message

time.sleep(0.6)


def handle(message: Message) -> None:
    """Take the message."""
