"""An operation of any kind that is cancelled at any moment, and what must be true of it once it is `cancelled`."""

import json
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.whole_system.consumer import Answer, Behaviour, Request, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import NoAnswer, PoisonAdmin, until

Json = dict[str, Any]
DEAD = {"reason": "gave up", "exception_class": "TimeoutError"}
CANCELLED_SECONDS = 180

# What an operation may change of a message that it has not begun with.
_ROWS = """
SELECT message.id, ARRAY[state, reason, address_id::text, original_address_id::text, group_id::text, candidate::text,
                         crash_count::text, md5(payload), md5(headers), payload_bytes::text]
FROM message JOIN body USING (id) JOIN envelope USING (id) WHERE message.id = ANY(%s)
"""
_ENTRIES = "SELECT bookmark, is_listed, failures, crashes FROM poison_entry WHERE source = %s AND is_listed"
_CONVERSATIONS = """
SELECT conversation_id, failures, ended_at, error_code, error
FROM conversation JOIN address ON address.id = address_id WHERE name = %s AND ended_at IS NOT NULL
"""
_END_CONVERSATION = """
INSERT INTO conversation (address_id, conversation_id, ended_at, error_code, error)
SELECT id, %s, now(), 500, 'no' FROM address WHERE name = %s RETURNING 1
"""
_FLAG = "UPDATE message SET candidate = TRUE, crash_count = 1 WHERE id = ANY(%s) RETURNING 1"


@dataclass(frozen=True)
class Kind:
    """A kind of operation. `fields`: what the nth of its messages has; `settings`: of its policy."""

    action: str
    fields: Callable[[HttpDestination, int], Json] = lambda _to, _n: {}
    params: Callable[[HttpDestination], Json] = lambda _: {}
    settings: Mapping[str, Any] = field(default_factory=dict)
    are_candidates: bool = False


KINDS: dict[str, Kind] = {
    "approve": Kind("approve"),
    "return": Kind(
        "return",
        lambda to, _: {
            "address": f"{to.name}.dlq",
            "dead_letter": DEAD | {"original_address": to.address},
        },
    ),
    "redirect": Kind("redirect", params=lambda to: {"address": f"{to.name}.repaired"}),
    "patch": Kind("patch", params=lambda _: {"json_patch": [{"op": "add", "path": "/mended", "value": True}]}),
    "release": Kind("release", lambda _, n: {"bookmark": f"b {n}", "dead_letter": None}),
    "candidates": Kind("approve", are_candidates=True),
    "ordered": Kind("approve", lambda _, n: {"conversation_id": f"c {n % 5}"}, settings={"ordered": True}),
}


@dataclass(frozen=True)
class Scene:
    """Messages that wait for a decision, as they are, and where they go. `ids` by their place."""

    kind: Kind
    to: HttpDestination
    ids: list[int]
    rows: Mapping[int, list[str]]
    entries: Collection[tuple[Any, ...]]
    conversations: Collection[tuple[Any, ...]]

    def begin(self, **terms: object) -> int:
        """Begin the operation on all of them; return its id."""
        selection = self.to.installation.post("selections/", {"ids": [str(one) for one in self.ids]})["id"]
        body = {"selection": selection, "action": self.kind.action, "reason": "a test"} | terms
        if params := self.kind.params(self.to):
            body["params"] = params
        return int(self.to.installation.post("operations/", body)["id"])


def set_up(to: HttpDestination, kind: Kind, number: int) -> Scene:
    """Hand messages in that wait for a decision of the kind."""
    ask = to.installation
    lines = [
        {"address": to.address, "message_id": f"{to.name} {n}", "payload": {"n": n}, "dead_letter": DEAD}
        | kind.fields(to, n)
        for n in range(number)
    ]
    if kind.action == "release":
        for line in lines:
            report = {"source": to.address, "bookmark": line["bookmark"], "why": "it cannot be read"}
            ask.post("poison-list/", report)
    texts = [json.dumps({key: value for key, value in line.items() if value is not None}) for line in lines]
    answer = ask.ask("POST", "messages/batch/", "\n".join(texts).encode()).expect(202)
    assert answer["accepted"] == number, answer
    found = ask.rows("SELECT id FROM envelope WHERE message_id LIKE %s ORDER BY id", [f"{to.name} %"])
    ids = [row[0] for row in found]
    assert len(ids) == number
    if kind.are_candidates:
        ask.rows(_FLAG, [ids])
    if "ordered" in kind.settings:
        for conversation in ("c 0", "c 1"):
            ask.rows(_END_CONVERSATION, [conversation, to.address])
    return Scene(kind, to, ids, _rows(ask, ids), *_excluded(to))


def _rows(ask: PoisonAdmin, ids: Collection[int]) -> dict[int, list[str]]:
    return dict(ask.rows(_ROWS, [list(ids)]))  # type: ignore[arg-type]


def _excluded(to: HttpDestination) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    return tuple(to.installation.rows(query, [to.address]) for query in (_ENTRIES, _CONVERSATIONS))  # type: ignore[return-value]


def cancel(ask: PoisonAdmin, operation: int) -> Json:
    """Cancel the operation unless it is over already; return it once it is over."""
    answer = ask.ask("POST", f"operations/{operation}/cancel/", {})
    assert answer.status in (200, 409), answer.body
    assert answer.status == 409 or answer.json["state"] in ("cancelling", "cancelled")
    return until_over(ask, operation)


def until_over(ask: PoisonAdmin, operation: int) -> Json:
    """Return the operation once it has ended."""
    found: Json = {}

    def is_over() -> bool:
        try:
            answer = ask.ask("GET", f"operations/{operation}/")
        except NoAnswer:
            return False
        if answer.status == 200:
            found.update(answer.json)
        return found.get("ended_at") is not None

    until(is_over, CANCELLED_SECONDS, lambda: found)
    return found


def wrong(scene: Scene, found: Json, *, outcomes_are_known: bool = True) -> list[str]:
    """Return what is not as it must be of an operation that is over, some time after it ended."""
    ask, ledger = scene.to.installation, found["ledger"]
    members = {
        outcome: {int(row["id"]) for row in _members(ask, found["id"], outcome)} for outcome, n in ledger.items() if n
    }
    arrivals = [one for one in list(scene.to.consumer.arrivals) if one.message_id in scene.rows]
    never = set(scene.ids) - {one.message_id for one in arrivals}
    ended_at = datetime.fromisoformat(found["ended_at"]).timestamp()
    late = [one.message_id for one in arrivals if one.at > ended_at]
    cancelled = members.get("cancelled", set())
    after = _rows(ask, never)
    changed = {one: (scene.rows[one], after[one]) for one in never if after[one] != scene.rows[one]}
    waiting = ask.rows("SELECT id FROM message WHERE id = ANY(%s) AND state IN ('TBDL', 'DLNG')", [scene.ids])
    places = {one: place for place, one in enumerate(scene.ids)}
    fields = [scene.kind.fields(scene.to, places[one]) for one in never]
    entries, conversations = _excluded(scene.to)
    of_never = ({one.get("bookmark") for one in fields}, {one.get("conversation_id") for one in fields})
    told = {
        "begun after it was over": late,
        "still waiting": waiting,
        "its ledger does not sum": [ledger] if sum(ledger.values()) != found["count"] else [],
        "a line and its list differ": [one for one, ids in members.items() if len(ids) != ledger[one]],
        "never begun, and not cancelled": never - cancelled,
        "cancelled, and begun": cancelled - never if outcomes_are_known else [],
        "not as it was before": changed,
        "not on the list as before": {one for one in scene.entries if one[0] in of_never[0]} - set(entries),
        "not ended as before": {one for one in scene.conversations if one[0] in of_never[1]} - set(conversations),
    }
    return [f"{what}: {some}" for what, some in told.items() if some]


def _members(ask: PoisonAdmin, operation: str, outcome: str) -> list[Json]:
    page = ask.get(f"operations/{operation}/members/?outcome={outcome}&limit=200")
    rows: list[Json] = page["results"]
    while page["next"]:
        page = ask.get(page["next"].partition("/api/v1/")[2])
        rows += page["results"]
    return rows


def behaviour(dice: random.Random) -> Behaviour:
    """Return a consumer that is slow, and refuses some messages for good; the same ones for the same dice."""
    seconds, refused = dice.choice([0.0, 0.1, 0.5]), dice.choice([0, 0, 10])
    seed = dice.random()

    def answer(request: Request) -> Answer:
        one = random.Random(f"{seed} {request.message_id}")
        return Answer(503 if one.uniform(0, 100) < refused else 200, one.uniform(0, seconds))

    return answer


def terms_of(dice: random.Random) -> Json:
    """Return a rate, a canary, both or none."""
    terms: Json = {}
    if dice.random() < 0.5:
        terms["rate_per_second"] = dice.choice([4, 20, 200])
    if dice.random() < 0.3:
        terms["canary"] = True
    return terms


def cancelled_at(installation: PoisonAdmin, name: str, kind: str, dice: random.Random) -> list[str]:
    """Cancel an operation of the kind at a moment that the dice choose; return what was wrong."""
    with consuming(behaviour(dice)) as consumer:
        to = HttpDestination.create(
            installation, name, consumer, destination={"concurrency": dice.choice([2, 20])}, **KINDS[kind].settings
        )
        scene = set_up(to, KINDS[kind], dice.choice([40, 150]))
        terms = terms_of(dice)
        operation = scene.begin(**terms)
        time.sleep(dice.choice([0.0, dice.uniform(0, 1), dice.uniform(0, 3)]))
        found = cancel(installation, operation)
        time.sleep(1.0)
        told = wrong(scene, found)
        installation.post(f"destinations/{name}/disable/", {"reason": "the test is over"})
    return [f"{kind} {terms}: {one}" for one in told]
