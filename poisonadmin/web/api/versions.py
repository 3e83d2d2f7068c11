"""If-Match on configuration: replace what was read, or nothing."""

import re

from rest_framework.request import Request

from poisonadmin.core.domain.errors import PoisonAdminError

_ETAG = re.compile(r'"(\d{1,9})"')


class AlreadyExists(PoisonAdminError):
    """Raised when something is to be created under a name that is taken."""

    code = "already_exists"
    status = 409


class PreconditionFailed(PoisonAdminError):
    """Raised when the object is not what the caller had read."""

    code = "precondition_failed"
    status = 412


def expected_version(request: Request) -> int | None:
    """Return the version that If-Match asks for, None where any will do; raise PreconditionFailed."""
    given = request.headers.get("If-Match", "*").strip()
    if given == "*":
        return None
    found = _ETAG.fullmatch(given)
    if found is None:
        raise PreconditionFailed(f"{given[:80]} is no ETag of this; nothing was done.")
    return int(found[1])
