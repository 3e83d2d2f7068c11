"""Names for a message that comes from a broker: its address, its id, and a mark of its own where it has no id.

Two names of a broker may become one address; what the messages on it are known by says which queue they are from.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping

from poisonadmin.core.domain.addresses import ANY_WORDS, MAX_ADDRESS_CHARS, ONE_WORD
from poisonadmin.messages.domain.envelope_fields import LIMITS

DEFAULT_TEMPLATE = "{original}"

_PLACE = re.compile(r"\{(original|queue)\}")
_DIGEST_CHARS = 16
# Headers that a broker puts on a dead letter, or that we put on what we return: they tell of a message's ways, and are
# no part of what its producer sent. One pattern for Python and PostgreSQL, over names in lower case.
DEAD_LETTER_HEADERS = (
    r"^(x-death|x-opt-deaths|x-(first|last)-death-.*|x-delivery-count|x-acquired-count|_amq_orig_.*|"
    r"_amq_actual_expiry|kafka_dlt-.*|kafka_exception-.*|kafka_original-.*|__connect\.errors\..*|dead-letter-.*|"
    r"poisonadmin-.*)$"
)
_DEAD_LETTER_HEADER = re.compile(DEAD_LETTER_HEADERS, re.DOTALL)


def address_for(queue: str, original: str | None = None, *, template: str = DEFAULT_TEMPLATE) -> str:
    """Return the address at which a message from `queue` is taken in, by the source's `address` template.

    `original`: the broker's name of the queue or topic where it failed, where that is known. In the template `{queue}`
    stands for the queue that is drained, `{original}` for the original one, or the drained one when nobody knows it.
    What no address may hold becomes `_`; one that is too long ends in a digest of its whole name.

    >>> address_for("orders.dlq", "orders"), address_for("orders.dlq")
    ('orders', 'orders.dlq')
    >>> address_for("new orders/#1..x", template="rabbit.{queue}")
    'rabbit.new_orders/_1._.x'
    """
    names = {"original": original or queue, "queue": queue}
    return _as_address(_PLACE.sub(lambda found: names[found.group(1)], template))


def _as_address(text: str) -> str:
    words = text.split(".")
    name = ".".join("".join(map(_allowed, word)) or "_" for word in words)
    if len(name) <= MAX_ADDRESS_CHARS:
        return name
    kept = MAX_ADDRESS_CHARS - _DIGEST_CHARS - 1
    return f"{name[:kept]}_{_short_digest(text)}"


def _allowed(character: str) -> str:
    is_allowed = character.isprintable() and character not in (" ", ONE_WORD, ANY_WORDS)
    return character if is_allowed else "_"


def message_id_for(message_id: str | None, broker_id: str | None = None) -> str | None:
    """Return the id by which a message is known: the producer's, else the broker's, else None (see `made_id`).

    One that is too long or not printable ends in a digest of the whole, so that two never become one.

    >>> message_id_for("order-7", "orders/0/12"), message_id_for(None, "orders/0/12"), message_id_for("")
    ('order-7', 'orders/0/12', None)
    >>> message_id_for("line\\nbreak")
    'line_break#697affca60d5d0dc'
    """
    found = message_id or broker_id
    if not found:
        return None
    if len(found) <= LIMITS.message_id_chars and found.isprintable():
        return found
    shown = "".join(one if one.isprintable() else "_" for one in found)
    return f"{shown[: LIMITS.message_id_chars - _DIGEST_CHARS - 1]}#{_short_digest(found)}"


def content_digest(queue: str, payload: bytes, headers: Mapping[str, str], transport: bytes | None) -> bytes:
    """Return 32 bytes that are the same for each delivery of one message that its broker gives no identity.

    `headers` and `transport` must not hold what a broker changes from one delivery to the next (its delivery count, for
    one). Different messages have different digests; equal ones have the same, which is why receipts are counted.
    """
    digest = hashlib.sha256()
    parts = [queue.encode("utf-8", "surrogatepass"), payload, transport or b""]
    for name, value in sorted(headers.items()):
        parts += [name.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def made_id(digest: bytes) -> str:
    """Return a new id for a message that has none: equal messages are told apart, and their likeness can be seen."""
    return f"{digest.hex()[:_DIGEST_CHARS]}-{uuid.uuid4().hex}"


def is_dead_letter_header(name: str) -> bool:
    """Return whether a header tells of a message's ways through brokers and us, and is left out when it is returned.

    >>> is_dead_letter_header("x-first-death-queue"), is_dead_letter_header("x-tenant")
    (True, False)
    """
    return _DEAD_LETTER_HEADER.match(name.lower()) is not None


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
