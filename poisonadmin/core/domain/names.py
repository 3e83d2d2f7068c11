"""Names that people give to what they configure."""


def mistake_in(name: str, most: int, *, is_in_path: bool = False) -> str | None:
    """Return what is wrong with a name of at most `most` characters, None where nothing is.

    `is_in_path`: the name is one word of a URL's path, where a slash, `.` and `..` mean something else.

    >>> mistake_in("shop", 100), mistake_in("", 100), mistake_in("..", 100, is_in_path=True)
    (None, 'is required', 'may not be . or ..: it is part of a path')
    """
    if not name.strip():
        return "is required"
    if len(name) > most:
        return f"may have at most {most} characters, and has {len(name)}"
    if not name.isprintable():
        return "may hold only printable characters"
    if is_in_path and "/" in name:
        return "may hold no slash: it is part of a path"
    if is_in_path and name in (".", ".."):
        return "may not be . or ..: it is part of a path"
    return None
