"""Versions of consumers, compared as PEP 440 and Semantic Versioning do.

A version is numbers with dots, with an epoch (`1!`) or a `v` before them where it has one. Behind them stands nothing,
or what makes it an earlier or a later one of these numbers: `a1`, `-rc.1`, `.dev3`, `.post2`. What stands behind `+`
does not count. Of a number behind a hyphen both say different things: as in Semantic Versioning, 2.4.1-3 comes before
2.4.1, so that nothing begins too early. A text that is no version, such as the hash of a commit, can only be the same
as another one.
"""

import re
from typing import Any

MAX_VERSION_CHARS = 100

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d{1,9})!)?(?P<numbers>\d{1,18}(?:\.\d{1,18})*)"
    r"(?:[-_.]?(?P<letter>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<of_letter>\d{1,18})?"
    r"|-(?P<before>[0-9a-z-]+(?:\.[0-9a-z-]+)*))??"
    r"(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<of_post>\d{1,18})?)?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<of_dev>\d{1,18})?)?"
    r"(?:\+[0-9a-z._-]+)?",
    re.IGNORECASE | re.ASCII,
)
_LETTERS = {"a": "alpha", "b": "beta", "c": "rc", "pre": "rc", "preview": "rc"}
# Identifiers of what comes before a release are compared one by one: numbers before words, and the release after all.
_Identifier = tuple[int, int, str]
_FIRST: tuple[_Identifier, ...] = ((-1, 0, ""),)
_RELEASE: tuple[_Identifier, ...] = ((2, 0, ""),)


def at_least(version: str, wanted: str) -> bool | None:
    """Return whether a version is `wanted` or a later one; None where the two cannot be compared.

    >>> at_least("2.5.0", "2.4.10"), at_least("2.5.0-rc.1", "2.5"), at_least("v2.5.0+build.7", "2.5")
    (True, False, True)
    >>> at_least("9f3c2ab", "9f3c2ab"), at_least("9f3c2ab", "2.5.0")
    (True, None)
    """
    if version == wanted:
        return True
    one, other = _key(version), _key(wanted)
    return None if one is None or other is None else bool(one >= other)


def _key(version: str) -> Any:
    """Return what orders versions; None where the text is none."""
    found = _VERSION.fullmatch(version.strip()) if len(version) <= MAX_VERSION_CHARS else None
    if found is None:
        return None
    numbers = [int(one) for one in found["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    post = -1 if found["post"] is None else int(found["of_post"] or 0)
    dev = None if found["dev"] is None else int(found["of_dev"] or 0)
    if found["letter"] is not None:
        letter = found["letter"].lower()
        before: tuple[_Identifier, ...] = ((1, 0, _LETTERS.get(letter, letter)), (0, int(found["of_letter"] or 0), ""))
    elif found["before"] is not None:
        before = tuple(_identifier(one) for one in found["before"].split("."))
    else:
        before = _FIRST if dev is not None and post < 0 else _RELEASE
    return (int(found["epoch"] or 0), numbers, before, post, dev is None, dev or 0)


def _identifier(text: str) -> _Identifier:
    return (0, int(text), "") if text.isdigit() else (1, 0, text.lower())
