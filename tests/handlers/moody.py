"""A handler under load: it notes what it sees and when, and is slow, refuses at first, or dies, as the payload says."""

import os
import time

import deadly
from poisonadmin_handler import Message


def handle(message: Message) -> object:
    """Note message, attempt and time in the file that the header `notes` names, then do what the payload says."""
    notes = os.open(message.headers["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(notes, f"{message.id} {message.attempt} {time.time():.6f}\n".encode())
    os.close(notes)
    if message.payload == b"refuse at first":
        if message.attempt <= 2:
            raise deadly.OrderRejected("not yet")
        return None
    return deadly.handle(message)
