"""What a lost node leaves behind: results are taken, what had begun is suspected, the rest goes back."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from poisonadmin.delivery.commands.claim import ClaimRef, claim_isolated
from poisonadmin.delivery.commands.recovery import LostNode, search_lost_nodes, sweep_journals
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.claim import Node
from poisonadmin.store.models.destination import Destination
from tests.delivery.test_isolation import CRASH, suspicion
from tests.fixtures.delivery import answer, claim, enqueue, make_handler, states


class Found:
    """Pages that say what a test wants."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] | None = ()) -> None:
        self._rows = rows
        self.asked: list[LostNode] = []
        self.forgotten: list[int] = []

    def read(self, node: LostNode) -> Sequence[Mapping[str, Any]] | None:
        """Return the rows."""
        self.asked.append(node)
        return self._rows

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
    assert {owner for _, owner in journals.asked[0].destinations.values()} == {"orders.#"}
    assert set(journals.asked[0].destinations) == {done, begun, unbegun}
    assert search_lost_nodes("here", journals) == 0


def test_without_its_pages_all_that_a_node_held_is_suspected(handler: str) -> None:
    both = enqueue(2)
    lose(claim())
    search_lost_nodes("here", Found(None))
    settle()
    assert [suspicion(one)[1] for one in both] == [True, True]
    assert Attempt.objects.filter(outcome="node_lost", error_class="NodeLost").count() == 2


def test_the_plain_rule_suspects_and_counts_what_had_not_begun(handler: str) -> None:
    make_handler(blame="all_in_flight")
    both = enqueue(2)
    taken = claim()
    lose(taken)
    search_lost_nodes("here", Found([row(both[0], taken, "node_lost")]))
    settle()
    assert [suspicion(one) for one in both] == [("TBDL", True, 1)] * 2


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
