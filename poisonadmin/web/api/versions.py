"""If-Match on configuration: replace what was read, or nothing."""

import re

from rest_framework.request import Request

from poisonadmin.core.domain.errors import PreconditionFailed

_ETAG = re.compile(r'"(\d{1,9})"')


def expected_version(request: Request) -> int | None:
    """Return the version that If-Match asks for, None where any will do; raise PreconditionFailed."""
    given = request.headers.get("If-Match", "*").strip()
    if given == "*":
        return None
    found = _ETAG.fullmatch(given)
    if found is None:
        raise PreconditionFailed(f"{given[:80]} is no ETag of this; nothing was done.")
    return int(found[1])
