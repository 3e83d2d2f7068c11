"""Reveals one message to somebody for whom parts of it are masked: with a reason, which the audit log keeps."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.masking import in_the_clear
from poisonadmin.decisions.operations.domain.params import require_reason
from poisonadmin.desk.queries.detail import attempts, get_message, payload_start
from poisonadmin.messages.queries.detail_rows import AttemptRow

MAX_BODY_BYTES = 1024 * 1024
SHOWN_FAILURES = 10


@dataclass(frozen=True)
class RevealedMessage:
    """A message in the clear. `body`: as text, null where it is none; then `body_base64` has the same bytes.

    `is_cut`: the body is longer; these are its first bytes, at most 1 MiB. `failures`: the last ten.
    """

    id: int
    headers: Mapping[str, Any]
    business_keys: Mapping[str, str]
    body: str | None
    body_base64: str | None
    is_cut: bool
    failures: Sequence[AttemptRow]


def reveal(message_id: int, reason: str, *, principal: Principal) -> RevealedMessage:
    """Return the message in the clear, and write into the audit log who has read it, and why.

    Errors: `NotAllowed`, `NotFound`, `InvalidOperation` for no reason, `PayloadRemoved`.
    """
    principal.require(Permission.REVEAL)
    principal.require(Permission.READ_PAYLOAD)
    require_reason(reason)
    reader = in_the_clear(principal.as_reader)
    message = get_message(message_id, principal=reader)
    body = payload_start(message_id, principal=reader, most_bytes=MAX_BODY_BYTES)
    made = attempts(message_id, principal=reader, limit=SHOWN_FAILURES).results
    # Before anything is shown: what is not on record is not revealed.
    audit.record(principal.name, "message.revealed", "message", str(message_id), note=reason)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return RevealedMessage(
        message.id,
        message.headers,
        message.business_keys,
        text,
        None if text is not None else base64.b64encode(body).decode(),
        message.payload_bytes > len(body),
        [one for one in made if one.error_class is not None],
    )
