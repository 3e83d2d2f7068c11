"""Failure messages with what differs from one message to the next taken out, so that equal failures read equal."""

import re

MAX_MASKED_CHARS = 4096

# One pass, first alternative first. Each repetition is bounded or possessive, and each starts only where none of its
# kind could have started before: the time stays linear on hostile text.
_VARIABLE = re.compile(
    r"""
      (?P<url>   (?<![A-Za-z0-9]) [A-Za-z][A-Za-z0-9+.\-]{1,19} :// [^\s"'<>]++ )
    | (?P<email> (?<![\w.+\-]) [\w.+\-]{1,64}+ @ [A-Za-z0-9\-]++ (?: \.[A-Za-z0-9\-]++ )++ )
    | (?P<uuid>  (?<![0-9A-Fa-f]) [0-9A-Fa-f]{8} (?: -[0-9A-Fa-f]{4} ){3} - [0-9A-Fa-f]{12} (?![0-9A-Fa-f]) )
    | (?P<time>  (?<!\d) \d{4}-\d\d-\d\d
                 (?: [T ]\d\d:\d\d (?: :\d\d (?: [.,]\d{1,9}+ )? )? (?: Z | [+\-]\d\d:?\d\d )? )?
               | (?<!\d) \d\d:\d\d:\d\d (?: [.,]\d{1,9}+ )? )
    | (?P<ip>    (?<![\d.]) \d{1,3} (?: \.\d{1,3} ){3} (?: :\d{1,5} )? (?![\d.]) )
    | (?P<text>  " [^"\n]*+ " | (?<!\w) ' [^'\n]*+ ' (?!\w) | ` [^`\n]*+ ` | “ [^“”\n]*+ ” )
    | (?P<hex>   \b 0[xX][0-9A-Fa-f]++
               | \b (?= [A-Fa-f]{0,40} [0-9] ) (?= [0-9]{0,40} [A-Fa-f] ) [0-9A-Fa-f]{8,}+ \b )
    | (?P<id>    \b (?= [A-Za-z]{0,40} [0-9] ) (?= [0-9]{0,40} [A-Za-z] ) [A-Za-z0-9]{16,}+ \b )
    | (?P<n>     (?<! HTTP[ ] ) (?<! \d ) \d++ (?: [.,]\d++ )*+ )
    """,
    re.VERBOSE,
)
_BLANKS = re.compile(r"\s+")


def mask(text: str) -> str:
    """Return `text` on one line with numbers, ids, quoted texts, addresses and times replaced by placeholders.

    Of `text` only the first 4,096 characters count. The status after `HTTP` stays: it says what kind of failure it is.

    >>> mask("Order 4711 of 'ada' rejected at 2026-01-31T12:00:00Z: HTTP 422")
    'Order <n> of <text> rejected at <time>: HTTP 422'
    """
    masked = _VARIABLE.sub(lambda found: f"<{found.lastgroup}>", text[:MAX_MASKED_CHARS])
    return _BLANKS.sub(" ", masked).strip()
