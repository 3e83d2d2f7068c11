"""The icons of Tabler, from the front-end files of its package."""

import re
from functools import cache

from django.conf import settings

_OUTLINES = settings.BASE_DIR / "node_modules" / "@tabler" / "icons" / "icons" / "outline"


@cache
def paths_of(name: str) -> tuple[str, ...]:
    """Return the paths that draw an icon; none where the package is not installed or has no icon of that name."""
    try:
        drawing = (_OUTLINES / f"{name}.svg").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(re.findall(r'<path d="([^"]+)"', drawing))
