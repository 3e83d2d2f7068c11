"""The one base class of every error that PoisonAdmin raises on purpose, and the errors that many features raise."""


class PoisonAdminError(Exception):
    """Raised when a request cannot be served; the API maps it to `application/problem+json` in one place.

    An error of one feature is defined in the module that raises it. One class declares a `code`, which clients rely on
    and which therefore never changes, with its `status`, the HTTP status; what derives from it has the same.
    """

    code: str = "poisonadmin_error"
    status: int = 400

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotFound(PoisonAdminError):
    """Raised when there is nothing of this id or name, or none in the caller's scope; the two look the same."""

    code = "not_found"
    status = 404


class AlreadyExists(PoisonAdminError):
    """Raised when something is to be created under a name that is taken."""

    code = "already_exists"
    status = 409


class PreconditionFailed(PoisonAdminError):
    """Raised when it has changed since it was read, and nothing was done."""

    code = "precondition_failed"
    status = 412
