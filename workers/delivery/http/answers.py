"""The answer of an HTTP consumer beyond its status: the response header `PoisonAdmin-Outcome` (R12).

And `PoisonAdmin-Consumer-Version`, which says which version of the consumer has failed.
"""

from dataclasses import dataclass
from email.message import Message

from poisonadmin.core.domain.addresses import ANY_WORDS, InvalidAddress, matches, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.messages.domain.outcome import Outcome

HEADER = "PoisonAdmin-Outcome"
VERSION_HEADER = "PoisonAdmin-Consumer-Version"
MAX_HEADER_CHARS = 4096
MAX_CODE = 2**31 - 1

_OUTCOMES = {
    "discard": (Outcome.DISCARDED, {"why"}),
    "rollback": (Outcome.ROLLED_BACK, {"why"}),
    "move": (Outcome.MOVED, {"address", "why"}),
    "end-conversation": (Outcome.CONVERSATION_ENDED, {"code", "error"}),
}


class InvalidOutcome(PoisonAdminError):
    """Raised when the header asks for something that cannot be done."""

    code = "invalid_outcome"


@dataclass(frozen=True, slots=True)
class ConsumerOutcome:
    """The outcome that a consumer wants for a message. `address` for a move; `error_code` for a conversation's end.

    A conversation that ends without code and `why` ends normally.
    """

    outcome: Outcome
    why: str | None = None
    address: str | None = None
    error_code: int | None = None


def parse_outcome(value: str, *, address: str, owner: str = ANY_WORDS) -> ConsumerOutcome:
    """Return what the header's value asks for, of a message on `address`; raise `InvalidOutcome`.

    `owner`: the pattern of the addresses that the destination may move messages to.

    >>> parse_outcome('move; address="orders.late"', address="orders").address
    'orders.late'
    >>> parse_outcome('end-conversation; code=17; error="no such order"', address="orders").error_code
    17
    """
    if len(value) > MAX_HEADER_CHARS:
        raise InvalidOutcome(f"{HEADER} has more than {MAX_HEADER_CHARS} characters.")
    name, parameters = _parsed(value)
    if name not in _OUTCOMES:
        raise InvalidOutcome(f"{HEADER}: {name[:40]!r} is none of {', '.join(_OUTCOMES)}.")
    outcome, known = _OUTCOMES[name]
    for parameter in parameters:
        if parameter not in known:
            raise InvalidOutcome(f"{HEADER}: {name} has no parameter {parameter[:40]!r}.")
    why = parameters.get("why") or parameters.get("error") or None
    if outcome is Outcome.MOVED:
        return ConsumerOutcome(outcome, why, address=_target(parameters.get("address"), address, owner))
    if outcome is Outcome.CONVERSATION_ENDED:
        return ConsumerOutcome(outcome, why, error_code=_code(parameters.get("code"), has_error=why is not None))
    return ConsumerOutcome(outcome, why)


def _parsed(value: str) -> tuple[str, dict[str, str]]:
    """Return the first word of a header's value, and its parameters, their quotes taken off."""
    message = Message()
    message[HEADER] = value.replace("\r", " ").replace("\n", " ")
    pairs = message.get_params(failobj=[("", "")], header=HEADER)
    texts = [(str(name).strip().lower(), text if isinstance(text, str) else text[-1]) for name, text in pairs]
    return texts[0][0], dict(texts[1:])


def _target(named: str | None, here: str, owner: str) -> str:
    if not named:
        raise InvalidOutcome(f"{HEADER}: move needs an address.")
    try:
        target = validate_address(named)
    except InvalidAddress as error:
        raise InvalidOutcome(f"{HEADER}: address: {error.detail}") from None
    if not matches(owner, target):
        raise InvalidOutcome(f"{HEADER}: {target} is not among the addresses of this destination, {owner}.")
    if target == here:
        raise InvalidOutcome(f"{HEADER}: the message is on {here} already.")
    return target


def _code(text: str | None, *, has_error: bool) -> int | None:
    if text is None:
        return 0 if has_error else None
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_CODE):
        raise InvalidOutcome(f"{HEADER}: code must be a whole number of at most {MAX_CODE}.")
    return int(text) or (0 if has_error else None)
