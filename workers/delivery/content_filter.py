"""Content rules, asked about each message of a shard before a delivery is begun.

They are read once a shard, so that a rule that is changed later holds for what waits. One that cannot be asked, or is
too slow, is switched off, with an entry in the audit log; deliveries go on without it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import orjson

from poisonadmin.rules.domain.content_rules import ContentRule, ContentRules, Subject, compile_content_rule
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import Before, RuleDefinition, RuleFailed
from workers.delivery.deliveries import Delivery
from workers.delivery.sessions import Session

_RULES = """
SELECT id, name, version, match::text, action::text FROM rule
WHERE stage = 'before' AND is_enabled AND (ends_at IS NULL OR ends_at > now()) ORDER BY position, id
"""

# Only the rule as it was read, and whoever is first says so.
_SWITCH_OFF = """
WITH off AS (
    UPDATE rule SET is_enabled = FALSE, fault = %(why)s
    WHERE id = %(id)s AND version = %(version)s AND is_enabled RETURNING name
)
INSERT INTO audit (actor, action, object_type, object_id, note, details)
SELECT 'system', 'rule.switched_off', 'rule', name, %(why)s, jsonb_build_object('version', %(version)s::int) FROM off
"""

# A message that is tried again is not tagged, nor counted, again.
_TAG = """
WITH put AS (
    SELECT message_id, rule_id, tags
    FROM jsonb_to_recordset(%(tagged)s::jsonb) AS t (message_id bigint, rule_id bigint, tags text[])
), tagged AS (
    INSERT INTO annotation (message_id, tags) SELECT message_id, tags FROM put ORDER BY message_id
    ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO UPDATE
    SET tags = ARRAY(SELECT DISTINCT unnest(annotation.tags || excluded.tags) ORDER BY 1)
    WHERE NOT annotation.tags @> excluded.tags
    RETURNING message_id
), hit AS (
    SELECT rule_id, count(*) AS n FROM put JOIN tagged USING (message_id) WHERE rule_id IS NOT NULL GROUP BY rule_id
), locked AS (
    SELECT id FROM rule WHERE id IN (SELECT rule_id FROM hit) ORDER BY id FOR NO KEY UPDATE
)
UPDATE rule SET hits = hits + n, last_hit_at = now() FROM locked JOIN hit ON hit.rule_id = locked.id
WHERE rule.id = locked.id
"""


def read_rules(reader: Session, addresses: Iterable[str]) -> ContentRules:
    """Return the enabled rules that may concern these addresses, compiled; switch off those that cannot be."""
    wanted = set(addresses)
    found: list[ContentRule] = []
    for rule_id, name, version, match, action in reader.execute(_RULES).fetchall():
        try:
            rule = _compiled(int(str(rule_id)), str(name), int(str(version)), str(match), str(action))
        except RuleFailed as failed:
            _switch_off(reader, failed)
            continue
        if any(rule.rule.covers(address) for address in wanted):
            found.append(rule)
    return ContentRules(found)


@lru_cache(maxsize=1024)
def _compiled(rule_id: int, name: str, version: int, match: str, action: str) -> ContentRule:
    rule = RuleDefinition(rule_id, name, version, json.loads(match), json.loads(action))
    return compile_content_rule(rule, compile_schema=compile_schema)


def screened(
    slices: Iterable[Sequence[Delivery]], rules: ContentRules, reader: Session, now: Callable[[], float]
) -> Iterator[Delivery]:
    """Yield each delivery, with the decision of the first rule that matches and does more than tag.

    `now` is the clock of `expires_at`. Tags are written before the messages of their slice are yielded.
    """
    known_failed: set[int] = set()
    for some in slices:
        if not rules.rules:
            yield from some
            continue
        _decide(some, rules, reader, now())
        for rule_id in rules.failed.keys() - known_failed:
            known_failed.add(rule_id)
            _switch_off(reader, rules.failed[rule_id])
        yield from some


def _decide(some: Sequence[Delivery], rules: ContentRules, reader: Session, now: float) -> None:
    tagged: list[dict[str, object]] = []
    for delivery in some:
        decision = rules.ask(delivery.address, _subject(delivery, now))
        if decision is None:
            continue
        only_tags = decision.action is Before.TAG
        if decision.tags:
            # What does more than tag is counted when it is settled.
            rule_id = decision.rule_id if only_tags else None
            tagged.append({"message_id": delivery.message_id, "rule_id": rule_id, "tags": decision.tags})
        if not only_tags:
            delivery.decision = decision
    if tagged:
        reader.execute(_TAG, {"tagged": orjson.dumps(tagged).decode()})


def _subject(delivery: Delivery, now: float) -> Subject:
    return Subject(
        delivery.payload,
        loads=orjson.loads,
        content_type=delivery.content_type,
        headers=delivery.headers,
        expires_in_ms=None if delivery.expires_at is None else (delivery.expires_at - now) * 1000,
    )


def _switch_off(reader: Session, failed: RuleFailed) -> None:
    rule = failed.rule
    reader.execute(_SWITCH_OFF, {"id": rule.id, "version": rule.version, "why": failed.why})
