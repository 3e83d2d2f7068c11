"""A unified diff as it is drawn."""

from collections.abc import Iterable

_KINDS = {"+": "added", "-": "removed", "@": "place"}


def drawn_diff(lines: Iterable[str] | None) -> list[tuple[str, str]] | None:
    """Return each line of a unified diff, without the names of its sides, with its kind: added, removed, place or none.

    >>> drawn_diff(["--- before", "+++ after", "@@ -1 +1 @@", "-a", "+b", " c"])
    [('place', '@@ -1 +1 @@'), ('removed', '-a'), ('added', '+b'), ('', ' c')]
    """
    return None if lines is None else [(_KINDS.get(line[:1], ""), line) for line in list(lines)[2:]]
