"""A handler that notes each message it sees in a file before it does what the payload says."""

import os

import deadly
from poisonadmin_handler import Message


def handle(message: Message) -> object:
    """Note the message in the file that its header `notes` names, then do what the payload says."""
    notes = os.open(message.headers["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(notes, f"{message.id} {message.attempt}\n".encode())
    os.close(notes)
    return deadly.handle(message)
