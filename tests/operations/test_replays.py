"""An operation leaves alone what a newer message has overtaken, and what may have been processed, unless waived."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.message import Message
from poisonadmin.store.roles import ANALYZED
from tests.fixtures.api import caller_of, take_dead
from tests.fixtures.delivery import make_destination
from tests.fixtures.pages import log_in

pytestmark = pytest.mark.django_db
APPROVE = OperationAction.APPROVE
NEWER, PROCESSED = "newer_delivered", "may_have_been_processed"
# What is known of a message, and whether its consumer may have processed it.
KNOWN: dict[tuple[str, str | None], bool] = {
    ("failed", "HttpTimeout"): True,
    ("failed", "HttpConnectionReset"): True,
    ("crashed", "ConsumerConnectionLost"): True,
    ("failed", "ConfirmLost"): True,
    ("node_lost", None): True,
    ("confirmed", None): True,
    ("outcome_lost", None): True,
    ("failed", "HttpConnectionError"): False,
    ("failed", "HttpStatusError"): False,
    ("failed", "NotSent"): False,
    ("imported", "HttpTimeout"): False,
    ("none", None): False,
}


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver."""
    make_destination()


@dataclass
class Drawn:
    """A message of the random ones."""

    id: int
    state: str
    address: str
    keys: dict[str, str]
    known: list[tuple[str, str | None]]

    @property
    def may_be_processed(self) -> bool:
        return any(KNOWN[one] for one in self.known)


def draw(n: int, seed: int, known_of: Iterable[tuple[str, str | None]] = KNOWN) -> list[Drawn]:
    """Write `n` random messages, all at once, and return them."""
    dice = random.Random(seed)
    for address in ("orders.eu", "orders.us"):
        take_dead(address)
    found = []
    for number in range(n):
        keys = {name: str(dice.randrange(n // 3 + 1)) for name in ("order", "bill") if dice.random() < 0.4}
        known = [
            (outcome, dice.choice([None, kind]) if outcome == "node_lost" else kind)
            for outcome, kind in dice.choices(list(known_of), k=dice.choice([0, 1, 1, 2]))
        ]
        known = [one if one in KNOWN else ("node_lost", None) for one in known]
        state = dice.choices(["NDLV", "DLVD", "FAIL", "TBDL"], [60, 30, 5, 5])[0]
        found.append(Drawn(1_000_000 + number, state, dice.choice(["orders.eu"] * 4 + ["orders.us"]), keys, known))
    _write(
        "message",
        "id, address_id, lane_id, state, reason, due_at, attempt_number",
        """one.id, address.id, lane.id, one.state,
              CASE one.state WHEN 'NDLV' THEN 'attempts_exhausted' WHEN 'FAIL' THEN 'failed_by_admin' END, now(), 3""",
        "one (id, state, address) JOIN address ON address.name = one.address"
        " JOIN lane ON lane.address_id = address.id AND lane.is_plain",
        [(one.id, one.state, one.address) for one in found],
        "bigint text text",
    )
    _write(
        "envelope",
        "id, intake_address_id, message_id, content_type, payload_bytes, received_by",
        "one.id, address.id, one.id::text, 'text/plain', 1, 'test'",
        "one (id, address) JOIN address ON name = address",
        [(one.id, one.address) for one in found],
        "bigint text",
    )
    _write("body", "id, headers, payload", r"one.id, '\x7b7d', 'x'", "one (id)", [(one.id,) for one in found], "bigint")
    _write(
        "business_key",
        "message_id, name, value",
        "one.*",
        "one (id, name, value)",
        [(one.id, name, value) for one in found for name, value in one.keys.items()],
        "bigint text text",
    )
    attempts = [
        (one.id, number, *known)
        for one in found
        for number, known in enumerate(one.known)
        if known[0] not in ("confirmed", "outcome_lost", "none")
    ]
    _write(
        "attempt",
        "message_id, attempt_number, finished_at, outcome, error_class, fingerprint, title",
        "id, number, now(), outcome, class, 'f', 't'",
        "one (id, number, outcome, class)",
        attempts,
        "bigint int text text",
    )
    _write(
        "confirmation",
        "message_id, attempt_number, destination_id, delivered_at, confirmed_at",
        "id, 1, 1, now(), now()",
        "one (id)",
        sorted({(one.id,) for one in found if ("confirmed", None) in one.known}),
        "bigint",
    )
    _write(
        "history",
        "message_id, from_state, to_state, event, actor, attempt_number",
        "id, 'DLNG', 'TBDL', 'outcome_lost', 'system', 1",
        "one (id)",
        sorted({(one.id,) for one in found if ("outcome_lost", None) in one.known}),
        "bigint",
    )
    return found


def _write(table: str, columns: str, values: str, source: str, rows: list[tuple[Any, ...]], types: str) -> None:
    if not rows:
        return
    lists = ", ".join(f"%s::{kind}[]" for kind in types.split())
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM unnest({lists}) AS {source}",
            [list(some) for some in zip(*rows, strict=True)],
        )


def by_hand(drawn: list[Drawn], waive: tuple[str, ...] = ()) -> Counter[str]:
    """Count what an approval of all that is undecided would come to, message by message."""
    counts = Counter[str]()
    delivered = [one for one in drawn if one.state == "DLVD"]
    newest: dict[tuple[str, str, str], int] = {}
    for one in delivered:
        for name, value in one.keys.items():
            newest[one.address, name, value] = max(one.id, newest.get((one.address, name, value), 0))
    for one in drawn:
        if one.state != "NDLV":
            continue
        is_old = any(newest.get((one.address, *key), 0) > one.id for key in one.keys.items())
        if is_old and NEWER not in waive:
            counts[NEWER] += 1
        elif one.may_be_processed and PROCESSED not in waive:
            counts[PROCESSED] += 1
        else:
            counts["accepted"] += 1
    return counts


def previewed(selection: int, waive: tuple[str, ...]) -> Counter[str]:
    """Count what the preview says."""
    found = preview(get_selection(selection, principal=SYSTEM), APPROVE, principal=SYSTEM, waive=waive)
    counts = Counter({"accepted": found.accepted})
    for one in found.refused:
        counts[one.code] += one.count
    return counts


def test_its_figures_are_those_of_a_count_by_hand(test_database_url: str) -> None:
    drawn = draw(10_000, seed=27)
    Message.objects.filter(id__lt=1_000_000).update(state="FAIL", reason="failed_by_admin")
    with psycopg.connect(test_database_url, autocommit=True) as autovacuum:
        # It does not see what the test has not committed, and takes the tables for empty.
        autovacuum.execute(f"VACUUM ANALYZE {', '.join(ANALYZED)}")
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    for waive in ((), (NEWER,), (PROCESSED,), WAIVABLE):
        assert previewed(selection, waive) == by_hand(drawn, waive), waive
    wanted = by_hand(drawn, (NEWER,))
    assert min(by_hand(drawn).values()) > 300
    operation = begin(selection, APPROVE, reason="r", principal=SYSTEM, terms=OperationTerms(waive=[NEWER]))
    carry_on(seconds=300)
    found = get_operation(operation, principal=SYSTEM)
    assert {one.code: one.count for one in found.skipped} == {PROCESSED: wanted[PROCESSED]}
    assert Message.objects.filter(operation_id=operation, state="TBDL").count() == wanted["accepted"]


def overtaken() -> int:
    """Return a message with a newer one that was delivered."""
    (old, new) = draw(2, seed=1, known_of=[("none", None)])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM business_key; INSERT INTO business_key SELECT id, 'order', '7' FROM message")
        cursor.execute("UPDATE message SET state = 'NDLV', reason = 'attempts_exhausted'")
        cursor.execute("DELETE FROM message WHERE id < 1000000")
    Message.objects.filter(id=new.id).update(
        state="DLVD", reason=None, address_id=Message.objects.get(id=old.id).address_id
    )
    return old.id


def test_what_was_delivered_elsewhere_or_is_archived() -> None:
    old = overtaken()
    selection = freeze(ids=[old], principal=SYSTEM)
    assert previewed(selection, ()) == Counter({NEWER: 1, "accepted": 0})
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO archived_message (id, piece_id, address_id, state, state_at, received_at, message_id)"
            " SELECT id, 1, address_id, state, now(), now(), 'x' FROM message WHERE id > %s",
            [old],
        )
        cursor.execute("DELETE FROM message WHERE id > %s", [old])
    assert previewed(selection, ()) == Counter({NEWER: 1, "accepted": 0})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE archived_message SET address_id = -1")
    assert previewed(selection, ()) == Counter({"accepted": 1})


def test_a_decision_on_one_message_is_its_own_waiver() -> None:
    old = overtaken()
    assert decide_on([old], APPROVE, reason="r", principal=SYSTEM).changed == (old,)


def test_the_api_refuses_and_waives() -> None:
    caller = caller_of("operator")
    old = overtaken()
    selection = caller.post("selections/", {"ids": [str(old)]}).json()["id"]
    path = f"selections/{selection}/preview/"
    assert [one["code"] for one in caller.get(path).json()["refused"]] == [NEWER]
    assert caller.get(f"{path}?waive={NEWER}&waive={PROCESSED}").json()["accepted"] == 1
    body: dict[str, Any] = {"selection": selection, "action": "approve", "reason": "r"}
    assert caller.post(path, {"action": "approve", "waive": [NEWER]}).json()["accepted"] == 1
    assert caller.post("operations/", {**body, "waive": ["no_destination"]}).status_code == 400
    assert caller.post("operations/", {**body, "action": "fail", "waive": [NEWER]}).status_code == 400
    first = caller.post("operations/", body).json()
    assert first["skipped"] == [{"code": NEWER, "count": 1}]
    second = caller.post("operations/", {**body, "waive": [NEWER]}).json()
    assert (second["skipped"], second["params"]["waive"]) == ([], [NEWER])


@pytest.mark.usefixtures("page_settings")
def test_the_page_says_so_and_a_tick_waives_it() -> None:
    old = overtaken()
    browser = log_in("operator")
    selected = browser.post("/operations/select/", {"query": "state=NDLV"})["Location"] + "?action=approve"
    page = browser.get(selected).content.decode()
    assert "a newer message with the same business key was delivered" in page.lower()
    assert "waive_newer_delivered" in page
    assert "waive_may_have_been_processed" not in page
    again = browser.post(selected, {"waive_newer_delivered": "on", "preview": "1"})
    assert again.status_code == 200
    assert "Approve 1</button>" in " ".join(again.content.decode().split())
    begun = browser.post(selected, {"waive_newer_delivered": "on", "reason": "r", "begin": "1"})
    assert "Delivered all the same" in browser.get(begun["Location"]).content.decode()
    assert Message.objects.get(id=old).state == "TBDL"


@pytest.mark.usefixtures("page_settings")
@pytest.mark.parametrize("known", list(KNOWN))
def test_the_page_of_a_message_names_the_evidence(known: tuple[str, str | None]) -> None:
    browser = log_in("viewer")
    message_id = take_dead("orders.eu")
    outcome, error_class = known
    with connection.cursor() as cursor:
        if outcome == "confirmed":
            cursor.execute(
                "INSERT INTO confirmation (message_id, attempt_number, destination_id, delivered_at,"
                " confirmed_at) VALUES (%s, 2, 1, now(), now())",
                [message_id],
            )
        elif outcome == "outcome_lost":
            cursor.execute(
                "INSERT INTO history (message_id, from_state, to_state, event, actor, attempt_number)"
                " VALUES (%s, 'DLNG', 'TBDL', 'outcome_lost', 'system', 2)",
                [message_id],
            )
        elif outcome not in ("none", "imported"):
            cursor.execute(
                "INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class,"
                " fingerprint, title) VALUES (%s, 2, now(), %s, %s, 'f', 't')",
                [message_id, outcome, error_class],
            )
    page = browser.get(f"/messages/{message_id}/").content.decode()
    assert ("It may have been processed already" in page) is KNOWN[known]
    assert ("Attempt 2 " in page) is KNOWN[known] or not KNOWN[known]
