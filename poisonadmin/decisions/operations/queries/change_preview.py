"""Previews a change of payloads: tries it on messages of a selection, with the function that carries it out."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.queries import payload_changes, refusals
from poisonadmin.decisions.queries.payload_changes import Changeable, Changed, MessageContent, NotChanged, PayloadChange
from poisonadmin.rules.domain.content_rules import ContentRules, Subject
from poisonadmin.rules.queries import content_rules

MAX_TRIED = 1_000
SECONDS_TRIED = 5.0
MAX_SAMPLES = 5
# As the page of a message shows of a payload.
MAX_SAMPLE_BYTES = 256 * 1024
_MESSAGES_A_STEP = 20

_ACCEPTED = partial(
    named_sql,
    """
SELECT message.id
FROM {members} JOIN message ON message.id = member.id {joins}
WHERE ({refusal}) IS NULL AND message.id NOT IN ({held})
ORDER BY {order} LIMIT {most}
""",
)


@dataclass(frozen=True)
class NotChangedCount:
    """A count of tried messages to which the change does not apply, and the reason."""

    code: str
    address: str
    target: str
    count: int
    detail: str | None


@dataclass(frozen=True)
class ChangeSample:
    """A message before and after. `diff`: lines of a unified diff, JSON a member a line; None where it is too long.

    `is_json_before`, `is_json_after`: whether the payload is JSON. `rule`: what a rule before deliveries would
    do to it.
    """

    message_id: int
    address: str
    diff: list[str] | None
    bytes_before: int
    bytes_after: int
    is_json_before: bool
    is_json_after: bool
    rule: str | None


@dataclass(frozen=True)
class ChangePreview:
    """The result of a change on `tried` messages; `is_whole`: these are all that the operation would change.

    `refused`: those it does not apply to. `samples`: the first few of the others.
    """

    tried: int
    is_whole: bool
    refused: list[NotChangedCount]
    samples: list[ChangeSample]


def preview_change(values: Mapping[str, Any], params: Mapping[str, Any], accepted: int) -> ChangePreview:
    """Try the change on the accepted messages of a selection, on some by chance where they are many.

    `values`: the parameters of the refusals, and `selection`.
    """
    statement = _ACCEPTED(
        members=refusals.OF_SELECTION,
        held=refusals.held(OperationAction.PATCH),
        joins=refusals.joins(OperationAction.PATCH),
        refusal=refusals.REFUSALS[OperationAction.PATCH],
        order=raw("message.id" if accepted <= MAX_TRIED else "random()"),
        most=MAX_TRIED,
    )
    ids = fetch_values(str(statement), values)
    wanted = PayloadChange(params)
    until = time.monotonic() + SECONDS_TRIED
    refused = Counter[tuple[str, str, str, str | None]]()
    samples: list[ChangeSample] = []
    tried = 0
    for found in _read(ids):
        if time.monotonic() > until:
            break
        tried += 1
        try:
            after = wanted.apply(found.content, target=found.target, most_bytes=found.most_bytes)
        except NotChanged as error:
            refused[error.code, found.address, found.target, error.detail] += 1
        else:
            if len(samples) < MAX_SAMPLES:
                samples.append(_sample(found, after, content_rules()))
    left = [NotChangedCount(*key[:3], n, key[3]) for key, n in refused.most_common()]
    return ChangePreview(tried, tried == accepted, left, samples)


def sample_of(message_id: int, params: Mapping[str, Any]) -> ChangeSample:
    """Return what the change makes of one message. Errors: `NotChanged`."""
    (found,) = payload_changes.read([message_id])
    after = PayloadChange(params).apply(found.content, target=found.target, most_bytes=found.most_bytes)
    return _sample(found, after, content_rules())


def _read(ids: Sequence[int]) -> Iterator[Changeable]:
    for start in range(0, len(ids), _MESSAGES_A_STEP):
        yield from payload_changes.read(ids[start : start + _MESSAGES_A_STEP])


def _sample(found: Changeable, after: Changed, rules: ContentRules) -> ChangeSample:
    is_short = max(found.payload_bytes, len(after.payload)) <= MAX_SAMPLE_BYTES
    return ChangeSample(
        found.id,
        found.address,
        payload_changes.diff(found.content, MessageContent(after.payload, after.headers)) if is_short else None,
        found.payload_bytes,
        len(after.payload),
        _is_json(found.content.payload),
        _is_json(after.payload),
        _rule(found, after, rules),
    )


def _is_json(payload: bytes | None) -> bool:
    try:
        orjson.loads(payload or b"")
    except ValueError:
        return False
    return True


def _rule(found: Changeable, after: Changed, rules: ContentRules) -> str | None:
    """Return the rule that would decide of the message before it is delivered."""
    subject = Subject(
        after.payload,
        loads=orjson.loads,
        content_type=found.content_type,
        headers=json.loads(after.headers),
    )
    decision = rules.ask(found.target, subject)
    return None if decision is None else decision.note
