"""The errors that a guard raises of its own; a handler's exceptions pass through it unchanged."""


class GuardError(Exception):
    """The base of what a guard raises."""


class ListNotLoaded(GuardError):
    """Raised when the poison list did not arrive in the time that was given."""


class Refused(GuardError):
    """Raised at the start when the server will not have us: an unknown token, a missing scope, another address."""


class Undecided(GuardError):
    """Raised instead of handling a bookmark whose failure is reported and not answered yet.

    It was not handled: do not acknowledge it, and let some time pass before it is delivered again.
    """

    def __init__(self, bookmark: str) -> None:
        super().__init__(f"the failure of {bookmark} is reported, and the server has not answered yet")
        self.bookmark = bookmark


class Unreachable(GuardError):
    """Raised inside the guard when the server gives no answer; never out of it."""
