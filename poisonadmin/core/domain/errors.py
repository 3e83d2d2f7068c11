"""The one base class of every error that PoisonAdmin raises on purpose."""


class PoisonAdminError(Exception):
    """Raised when a request cannot be served; the API maps it to `application/problem+json` in one place.

    Each specific error is defined in the module that raises it and sets `code`, which clients rely on and which
    therefore never changes, and `status`, the HTTP status.
    """

    code: str = "poisonadmin_error"
    status: int = 400

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
