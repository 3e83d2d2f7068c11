"""A handler that would need an event loop."""

from poisonadmin_handler import Message


async def handle(message: Message) -> None:
    """Never run."""
    raise AssertionError(message.id)
