"""Patterns over text, as in the columns of a table of rules: `*` any characters, `?` one.

Nothing here backtracks: a hostile text costs its length, times that of a stretch of the pattern at worst.
"""

import re
from collections.abc import Callable

Test = Callable[[str], bool]


def glob(pattern: str, *, ignore_case: bool = False) -> Test:
    """Return whether a text as a whole fits the pattern.

    >>> fits = glob("Time*out?")
    >>> fits("TimeoutX"), fits("Time is out!"), fits("Timeout")
    (True, True, False)
    >>> glob("APPLICATION/*", ignore_case=True)("application/json")
    True
    """
    if pattern.strip("*") == "" and pattern:
        return lambda _: True
    if not ignore_case and "*" not in pattern and "?" not in pattern:
        return pattern.__eq__
    first, *rest = [_literal(part) for part in re.split(r"\*+", pattern)]
    # Each stretch is taken where it is found first, and never looked for again: that is what (?>…) says.
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    source = first + middle + (f".*{rest[-1]}" if rest else "")
    found = re.compile(source, re.DOTALL | (re.IGNORECASE if ignore_case else 0)).fullmatch
    return lambda text: found(text) is not None


def _literal(part: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in part)
