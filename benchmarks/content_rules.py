"""RULES: what twenty content rules cost a message before its delivery, when none of them matches."""

import statistics
import time
from typing import Any

import orjson

from benchmarks.results import Line, at_most, say
from benchmarks.world import World
from poisonadmin.rules.domain.content_rules import ContentRules, Subject, compile_content_rule
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import RuleDefinition, Stage, validate_rule

NAME = "RULES"
MESSAGES = 200_000
RULES = 20

SCHEMA = {
    "type": "object",
    "required": ["id", "employee", "lines"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "employee": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": "^e-"}}},
        "lines": {"type": "array", "items": {"type": "object", "required": ["sku", "quantity"]}},
    },
}
# One of each kind, so that twenty are a fourfold table: a rule costs most when its last condition decides.
KINDS: tuple[dict[str, Any], ...] = (
    {"address": "orders.#", "json": [{"path": "$.amount", "outside": {"min": 0}}]},
    {"address": "orders.#", "json": [{"path": "$.employee.id", "missing": True}]},
    {"address": "returns.#", "size": {"min": 1_000_000}},
    {"headers": [{"name": "X-Kind", "like": "pull*"}], "content_type": "application/*"},
    {"address": "orders.#", "violates": SCHEMA},
)


def run(world: World) -> list[Line]:
    """Measure in this process: that is what a task does between reading a message and delivering it."""
    count = world.count(MESSAGES, least=1_000)
    figures = {rules: [cost_us(rules, count) for _ in range(world.rounds)] for rules in (0, RULES)}
    for rules, found in figures.items():
        say(f"    {rules} rules: {', '.join(f'{figure:.2f}' for figure in found)} us a message")
    median = statistics.median(figures[RULES])
    note = f"{statistics.median(figures[0]):.2f} us with none; four rules of each kind, JSON of {len(PAYLOAD)} bytes"
    return [at_most(NAME, f"asking {RULES} rules about a message, none matches", median, aim=50, unit="us", note=note)]


def table(count: int) -> ContentRules:
    """Return a table of `count` rules."""
    rules = []
    for number in range(count):
        match, action = validate_rule(Stage.BEFORE, KINDS[number % len(KINDS)], {"do": "reject"})
        rule = RuleDefinition(number + 1, f"rule {number + 1}", 1, match, action)
        rules.append(compile_content_rule(rule, compile_schema=compile_schema))
    return ContentRules(rules)


def cost_us(rule_count: int, messages: int) -> float:
    """Return the processor time that a message costs, in microseconds."""
    rules = table(rule_count)
    began = time.process_time()
    for _ in range(messages):
        subject = Subject(PAYLOAD, loads=orjson.loads, content_type="application/json", headers=HEADERS)
        assert rules.ask("orders.eu.created", subject) is None
    return (time.process_time() - began) / messages * 1e6


HEADERS = {"X-Kind": "push", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
PAYLOAD = orjson.dumps(
    {
        "id": 1042,
        "amount": 129.5,
        "employee": {"id": "e-17", "name": "n"},
        "lines": [{"sku": f"sku-{n}", "quantity": n, "text": "x" * 40} for n in range(10)],
    }
)
