"""Failures and their fingerprints: which failures are the same failure."""

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from poisonadmin.groups.domain.stacks import first_application_frame, root_cause_class, thrown_class
from poisonadmin.messages.domain.dead_letter import DeadLetter

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
    | (?P<key>   [{,] \s{0,20}+ (?:
                     " (?: error | code | type | reason | error_code | errorCode )" \s{0,20}+ : \s{0,20}+
                     " [A-Za-z]{1,40}+ (?: [_.\-] [A-Za-z]{1,40}+ ){0,8}+ " (?= \s{0,20} [,}] )
                   | " [A-Za-z_][A-Za-z_.\-]{0,60}+ " (?= \s{0,20} : ) ) )
    | (?P<text>  " (?: [^"\\\n] | \\. )*+ " | (?<!\w) ' [^'\n]*+ ' (?!\w) | ` [^`\n]*+ ` | “ [^“”\n]*+ ” )
    | (?P<hex>   \b 0[xX][0-9A-Fa-f]++
               | \b (?= [A-Fa-f]{0,40} [0-9] ) (?= [0-9]{0,40} [A-Fa-f] ) [0-9A-Fa-f]{8,}+ \b )
    | (?P<id>    \b (?= [A-Za-z]{0,40} [0-9] ) (?= [0-9]{0,40} [A-Za-z] ) [A-Za-z0-9]{16,}+ \b )
    | (?P<n>     (?<! HTTP[ ] ) (?<! \d ) \d++ (?: [.,]\d++ )*+ )
    """,
    re.VERBOSE,
)
_BLANKS = re.compile(r"\s+")
# Raise it with every change of what a fingerprint is made of; `manage.py regroup` then gives stored failures theirs.
FINGERPRINT_VERSION = 2
_PLACEHOLDER = re.compile(r"<(\w+)>")
# What the placeholders of `mask` stand for, as a title says it.
_KINDS = {
    "url": "a URL",
    "email": "an e-mail address",
    "uuid": "an id",
    "time": "a time",
    "ip": "an IP address",
    "text": "a text",
    "hex": "an id",
    "id": "an id",
    "n": "a number",
}
_KEY = re.compile(r'"([A-Za-z_.\-]+)"\s*:\s*')
# A code that `mask` leaves: it says more than any key whose value it does not.
_CODE = re.compile(r'"([A-Za-z_]+)"\s*:\s*("[^"]+")')
_BRACKETS = str.maketrans("", "", "{}[]")
# For so long it is kept how many failures a group had in each hour.
HOURS_KEPT_DAYS = 35
# A gap between two failures of a group that is shorter than this is no quiet.
LEAST_QUIET_MINUTES = 5
# The classes of failures that a delivery itself finds, as `exception_class`.
HTTP_STATUS_ERROR = "HttpStatusError"
HTTP_TIMEOUT = "HttpTimeout"
HTTP_CONNECTION_ERROR = "HttpConnectionError"
HTTP_TLS_ERROR = "HttpTlsError"
HTTP_PROTOCOL_ERROR = "HttpProtocolError"
DESTINATION_REFUSED = "DestinationRefused"  # the SSRF guard
NO_DESTINATION = "NoDestination"
UNKNOWN_FAILURE = "UnknownFailure"
MAX_EXCERPT_CHARS = 200
MAX_TITLE_CHARS = 200


def mask(text: str) -> str:
    """Return `text` on one line with numbers, ids, quoted texts, addresses and times replaced by placeholders.

    Of `text` only the first 4,096 characters count. The status after `HTTP` stays: it says what kind of failure it is;
    so do the keys of JSON objects that are words, and the value of `error`, `code`, `type` or `reason` that is a code.

    >>> mask("Order 4711 of 'ada' rejected at 2026-01-31T12:00:00Z: HTTP 422")
    'Order <n> of <text> rejected at <time>: HTTP 422'
    >>> mask('HTTP 422: {"currency": ["EURO is none"], "order": 17}')
    'HTTP 422: {"currency": [<text>], "order": <n>}'
    """
    return _BLANKS.sub(" ", _VARIABLE.sub(_placeholder, text[:MAX_MASKED_CHARS])).strip()


def _placeholder(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "key" else f"<{found.lastgroup}>"


@dataclass(frozen=True)
class Failure:
    """One failed attempt.

    `cause_class` is the root cause's class where it differs from the exception's; `frames` are the application's
    frames where the deliverer knows them, innermost first; `stack` is the text otherwise.
    """

    exception_class: str
    message: str
    cause_class: str | None = None
    frames: tuple[str, ...] = ()
    stack: str = ""

    @property
    def frame(self) -> str | None:
        """The application's frame nearest to the cause, None when there is none."""
        return self.frames[0] if self.frames else first_application_frame(self.stack)


def fingerprint(failure: Failure) -> str:
    """Return 16 hexadecimal digits that are equal for failures of one kind.

    They are made of the cause's class and the first application frame; without a frame, of the masked message.

    >>> one, other = Failure("KeyError", "'total' of order 1"), Failure("KeyError", "'total' of order 2")
    >>> fingerprint(one) == fingerprint(other)
    True
    """
    frame = failure.frame
    place = f"at {frame}" if frame else f"says {mask(failure.message)}"
    # As they are stored, without NUL, so that a stored failure has the fingerprint that it was stored with.
    cause = (failure.cause_class or failure.exception_class).replace("\0", "\ufffd")
    parts = (str(FINGERPRINT_VERSION), cause, place.replace("\0", "\ufffd"))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def title(failure: Failure) -> str:
    """Return the line that names a failure's group: what went wrong and where, without what varies.

    >>> title(Failure("shop.errors.OrderRejected", "order 17", frames=("orders/handler.py:handle",)))
    'OrderRejected in orders/handler.py:handle'
    >>> title(http_status_failure(503, "Service Unavailable", ""))
    '503 Service Unavailable'
    >>> title(http_status_failure(422, "", '{"currency": ["EURO is none"], "order": 17}'))
    '422 Unprocessable Entity: currency (a text), order (a number)'
    >>> title(http_status_failure(422, "", '{"error": "unknown_currency", "message": "EURO is none"}'))
    '422 Unprocessable Entity: error "unknown_currency"'
    >>> title(Failure("HttpTimeout", "No answer within 500 ms"))
    'HttpTimeout: No answer within … ms'
    >>> title(Failure("rejected", "rejected"))
    'rejected'
    """
    name = _short_class(failure.cause_class or failure.exception_class)
    frame = failure.frame
    if frame:
        line = f"{name} in {frame}"
    else:
        masked = mask(failure.message)
        if failure.exception_class == HTTP_STATUS_ERROR and masked:
            line = _answer_in_words(masked)
        else:
            line = f"{name}: {_PLACEHOLDER.sub('…', masked)}" if masked and masked != name else name
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


def _answer_in_words(masked: str) -> str:
    """Return the masked message of an HTTP status in words; of a JSON body its codes, or else its keys, with the
    kinds of their values."""
    status, separator, body = masked.removeprefix("HTTP ").partition(": ")
    with contextlib.suppress(ValueError):
        status = f"{status} {HTTPStatus(int(status)).phrase}"
    if not body.startswith(("{", "[")):
        return _PLACEHOLDER.sub("…", f"{status}{separator}{body}")
    if codes := dict.fromkeys(_CODE.findall(body)):
        return f"{status}{separator}{', '.join(' '.join(code) for code in codes)}"
    worded = _PLACEHOLDER.sub(lambda found: f"({_KINDS[found[1]]})", _KEY.sub(r"\1 ", body))
    return f"{status}{separator}{_BLANKS.sub(' ', worded.translate(_BRACKETS)).strip()}"


def from_dead_letter(dead_letter: DeadLetter | Mapping[str, object]) -> Failure:
    """Return the failure that a handed-in dead letter tells of, with the root cause read from its stack.

    Uses `reason`, `exception_class`, `cause_class`, `exception_message` and `stack`; any may be missing.
    """
    letter = dataclasses.asdict(dead_letter) if isinstance(dead_letter, DeadLetter) else dead_letter
    stack = _text(letter, "stack")
    cause = _text(letter, "cause_class") or root_cause_class(stack)
    reason = _text(letter, "reason")
    named = _text(letter, "exception_class") or thrown_class(stack) or reason or UNKNOWN_FAILURE
    return Failure(named, _text(letter, "exception_message") or reason, cause_class=cause, stack=stack)


def stored_failure(
    *,
    error_class: str,
    cause_class: str | None,
    message: str,
    stack: str,
    title: str,
    is_reported: bool,
) -> Failure | None:
    """Return the failure that a row of the failure log was written of; None where the row does not say it all.

    `is_reported`: it is that of a dead letter, of which the stack is all that is known. The frame that a deliverer knew
    stands in the title.
    """
    if is_reported:
        return Failure(error_class, message, cause_class=cause_class or root_cause_class(stack), stack=stack)
    named = f"{_short_class(cause_class or error_class)} in "
    if not title.startswith(named):
        return Failure(error_class, message, cause_class=cause_class, stack=stack)
    if len(title) >= MAX_TITLE_CHARS:
        return None  # the frame was cut
    return Failure(error_class, message, cause_class=cause_class, frames=(title.removeprefix(named),), stack=stack)


def http_status_failure(status: int, reason: str, body_excerpt: str) -> Failure:
    """Return the failure of a destination that answered with a status outside 200..299.

    The first line of the body, or JSON on one line, cut to 200 characters, is part of the message.
    """
    answer = f"HTTP {status} {reason}".rstrip()
    excerpt = _on_one_line(body_excerpt.strip())[:MAX_EXCERPT_CHARS].rstrip()
    return Failure(HTTP_STATUS_ERROR, f"{answer}: {excerpt}" if excerpt else answer)


def _on_one_line(body: str) -> str:
    if body.startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(json.loads(body), ensure_ascii=False)
    return body.partition("\n")[0]


def _short_class(name: str) -> str:
    return " ".join((name.rsplit(".", 1)[-1] or name).split())


def _text(letter: Mapping[str, object], field: str) -> str:
    value = letter.get(field)
    return value if isinstance(value, str) else ""
