"""Text that a stranger wrote, made fit to look at. Escaping is the template's business and always on."""

import unicodedata

MAX_NAME_CHARS = 300
_KEPT = frozenset("\n\t")
# Marks that reorder the text around them: with them a page can be made to read as what it does not say.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: object) -> str:
    """Return the text with control characters, lone surrogates and reordering marks shown instead of acting.

    >>> visible("a\\x00b"), visible("\\ud800"), visible("\\u202egnp.exe")
    ('a␀b', '\\\\ud800', '⟨U+202E⟩gnp.exe')
    """
    if text is None:
        return ""
    found = str(text)
    if found.isascii() and found.isprintable():
        return found
    return "".join(_shown(character) for character in found)


def clipped(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return the text, cut with an ellipsis when it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _shown(character: str) -> str:
    if character in _KEPT or character.isprintable() or character == "\u00a0":
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    if character in _REORDERING or unicodedata.category(character) in {"Cc", "Cf", "Cn", "Co"}:
        return f"⟨U+{code:04X}⟩"
    return character
