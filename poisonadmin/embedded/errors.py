"""The one error that the embedded services and the supervisor raise on purpose."""


class EmbeddedError(Exception):
    """Raised when a service cannot be started; the text says why and what to do, and is shown without a traceback."""
