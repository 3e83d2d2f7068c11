"""What a lost node leaves behind: results are taken, what had begun is suspected, the rest goes back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from poisonadmin.delivery.commands.claim import ClaimRef, claim_isolated
from poisonadmin.delivery.commands.recovery import LeftBehind, LostNode, search_lost_nodes, sweep_journals
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.lease import HeldFor
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.claim import Node
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.history import History
from tests.delivery.test_isolation import CRASH, suspicion
from tests.fixtures.delivery import answer, claim, enqueue, make_destination, make_handler, states
from workers.delivery.begun import BegunFile
from workers.dispatcher import LocalJournals


class Found:
    """Journals that say what a test wants; None: they are lost."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] | None = (), begun: Sequence[int] = ()) -> None:
        self._found = None if rows is None else LeftBehind(rows, begun)
        self.asked: list[LostNode] = []
        self.held: dict[int, HeldFor] = {}
        self.forgotten: list[int] = []

    def read(self, node: LostNode, held: Mapping[int, HeldFor]) -> LeftBehind | None:
        """Return what a test wants."""
        self.asked.append(node)
        self.held |= held
        return self._found

    def forget(self, node_id: int) -> None:
        """Note it."""
        self.forgotten.append(node_id)

    def node_ids(self) -> set[int]:
        """Return every node there is, and one that there is not."""
        return {*Node.objects.values_list("id", flat=True), 999_999}


def lose(taken: ClaimRef, *, host: str = "here", seconds_ago: int = 0, start_mark: int | None = None) -> None:
    """Write that the claim's node, which had journals, was lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO node (name, host, pid, claim_id, shard, lease_until, ended_at, "end", journals, start_mark)'
            " SELECT 'n', %s, 1, %s, shard, now(), now() - %s * interval '1 s', 'lost', 'journals', %s"
            " FROM unnest(%s::int[]) AS s(shard)",
            [host, taken.id, seconds_ago, start_mark, list(taken.shards)],
        )


def row(message_id: int, taken: ClaimRef, outcome: str) -> dict[str, Any]:
    """Return an attempt as journals tell it."""
    more = CRASH if outcome == "node_lost" else {}
    key = {"message_id": message_id, "attempt_number": 1, "claim_id": taken.id, "shard": 0}
    return key | {"finished_at": "now", "outcome": outcome} | more


def test_results_are_taken_and_only_what_had_begun_is_suspected(handler: str) -> None:
    done, begun, unbegun = enqueue(3)
    Destination.objects.update(owner="orders.#")
    taken = claim()
    lose(taken)
    journals = Found([row(done, taken, "delivered"), row(begun, taken, "node_lost")])
    assert search_lost_nodes("here", journals) == 1
    settle()
    assert [suspicion(one) for one in (done, begun, unbegun)] == [
        ("DLVD", False, 0),
        ("TBDL", True, 0),
        ("TBDL", False, 0),
    ]
    assert journals.forgotten == [journals.asked[0].id]
    assert {owner for _, owner in journals.held.values()} == {"orders.#"}
    assert set(journals.held) == {done, begun, unbegun}
    assert search_lost_nodes("here", journals) == 0


def test_without_its_pages_all_that_a_node_held_is_suspected(handler: str) -> None:
    both = enqueue(2)
    lose(claim())
    search_lost_nodes("here", Found(None))
    settle()
    assert [suspicion(one)[1] for one in both] == [True, True]
    assert Attempt.objects.filter(outcome="node_lost", error_class="NodeLost").count() == 2


@pytest.mark.conformance("SAP-2", "SAP-k", "R2")
def test_the_plain_rule_counts_what_had_begun_and_lets_alone_what_was_only_claimed(handler: str) -> None:
    make_handler(blame="all_in_flight")
    both = enqueue(2)
    taken = claim()
    lose(taken)
    search_lost_nodes("here", Found([row(both[0], taken, "node_lost")]))
    settle()
    assert [suspicion(one) for one in both] == [("TBDL", True, 1), ("TBDL", False, 0)]


@pytest.mark.conformance("R18", "R2", "SAP-n")
@pytest.mark.parametrize("blame", ["exact", "all_in_flight"])
def test_of_a_lost_node_of_an_http_consumer_only_what_had_begun_is_lost_or_accused(db: None, blame: str) -> None:
    make_destination(blame=blame)
    answered, begun, unbegun = enqueue(3)
    taken = claim()
    answer([answered])
    Node.objects.all().delete()
    lose(taken)
    search_lost_nodes("here", Found(begun=[answered, begun]))
    settle()
    accused = ("TBDL", True, 1) if blame == "all_in_flight" else ("TBDL", False, 0)
    assert [suspicion(one) for one in (answered, begun, unbegun)] == [("DLVD", False, 0), accused, ("TBDL", False, 0)]
    assert last_events(answered, begun, unbegun) == [
        "delivered",
        "node_lost" if blame == "all_in_flight" else "outcome_lost",
        "released",
    ]


def test_without_its_file_all_that_a_node_of_an_http_consumer_held_counts_as_begun(db: None) -> None:
    make_destination()
    both = enqueue(2)
    lose(claim())
    search_lost_nodes("here", Found(None))
    settle()
    assert last_events(*both) == ["outcome_lost"] * 2


def test_of_candidates_that_are_lost_with_their_machine_only_the_one_with_the_start_mark_is_accused(
    handler: str,
) -> None:
    marked, next_one = enqueue(2)
    claim()
    answer([marked, next_one], "crashed", **CRASH)
    settle()
    taken = claim_isolated()
    assert taken is not None
    lose(taken, start_mark=marked)
    search_lost_nodes("here", Found(None))
    settle()
    assert [suspicion(one) for one in (marked, next_one)] == [("NDLV", True, 2), ("TBDL", True, 1)]


def test_a_lost_node_whose_process_lives_waits_until_it_has_noticed(
    destination: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISONADMIN_HOME", str(tmp_path))
    begun, unbegun = enqueue(2)
    lose(claim())
    node = Node.objects.get()
    Node.objects.update(journals=str(tmp_path / "nodes"), lease_until="2099-01-01T00:00:00Z")
    file = BegunFile(tmp_path / "nodes", node.id)
    file.note([begun])
    assert search_lost_nodes("here", LocalJournals()) == 0
    assert states([begun, unbegun]) == ["DLNG", "DLNG"]
    file.close()
    assert search_lost_nodes("here", LocalJournals()) == 1
    settle()
    assert last_events(begun, unbegun) == ["outcome_lost", "released"]
    assert list((tmp_path / "nodes").iterdir()) == []


def last_events(*ids: int) -> list[str]:
    """Return the last event of each message's history."""
    return [History.objects.filter(message_id=one).order_by("-seq").values_list("event", flat=True)[0] for one in ids]


def test_the_pages_of_another_machine_are_left_to_it_for_a_while(handler: str) -> None:
    [message] = enqueue()
    taken = claim()
    lose(taken, host="elsewhere")
    journals = Found()
    assert search_lost_nodes("here", journals) == 0
    settle()
    assert states([message]) == ["DLNG"]
    Node.objects.update(ended_at="2020-01-01T00:00:00Z")
    assert search_lost_nodes("here", journals) == 1
    assert journals.asked == [], "its journals are elsewhere"
    settle()
    assert suspicion(message) == ("TBDL", True, 0)


def test_a_candidate_has_begun_from_its_start_mark_on(handler: str) -> None:
    marked, next_one = enqueue(2)
    claim()
    answer([marked, next_one], "crashed", **CRASH)
    settle()
    taken = claim_isolated()
    assert taken is not None
    lose(taken, start_mark=marked)
    search_lost_nodes("here", Found())
    settle()
    assert Attempt.objects.filter(message_id=marked, outcome="node_lost").exists()
    assert not Attempt.objects.filter(message_id=next_one, outcome="node_lost").exists()


def test_pages_of_nodes_that_need_them_no_more_are_swept(handler: str) -> None:
    enqueue()
    taken = claim()
    lose(taken)
    journals = Found()
    assert sweep_journals(journals) == 1
    assert journals.forgotten == [999_999]
