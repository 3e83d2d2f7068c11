"""What a node will not begin goes back while it still waits for an answer: an endpoint that hangs holds nobody else."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.claim import Claim
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from tests.fixtures.delivery import claim, end_nodes, enqueue, run_shards, states
from tests.fixtures.endpoint import endpoint
from tests.whole_system.installation import until


def deliver_to(url: str, concurrency: int = 1) -> None:
    config = {"url": url, "concurrency": concurrency, "timeout_ms": 30_000}
    save_destination("slow", kind="http", config=config, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    Destination.objects.update(window=256)
    save_policy("orders.#", preset=None, settings={}, destination="slow", principal=SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_the_rest_of_a_shard_goes_back_while_one_message_hangs(
    test_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.delivery.shard.START_BUDGET_SECONDS", 0.3)
    with endpoint() as (url, answers), ThreadPoolExecutor(1) as threads:
        deliver_to(url)
        ids = enqueue(5)
        taken = claim()
        delivering = threads.submit(run_shards, test_database_url, taken)
        until(lambda: fetch_values("SELECT released FROM node WHERE released IS NOT NULL") == [ids[1:]])
        assert settle() == Settled(returned=4)
        assert states(ids) == ["DLNG", *["TBDL"] * 4]
        assert settle() == Settled()
        deliver_to(url, concurrency=2)
        again = claim()
        assert again.size == 4
        answers.set()
        delivering.result()
        assert settle(taken.id) == Settled(delivered=1)
        assert states(ids) == ["DLVD", *["DLNG"] * 4], "what another claim has is not given back with the node's end"
        assert not Claim.objects.get(id=taken.id).is_open
    end_nodes(again)
    assert settle() == Settled(returned=4)
    events = [
        list(History.objects.filter(message_id=one).order_by("seq").values_list("event", flat=True)) for one in ids
    ]
    assert events[1:] == [["enqueued", "claimed", "released", "claimed", "released"]] * 4
    assert set(Message.objects.filter(id__in=ids[1:]).values_list("failure_count", "candidate")) == {(0, False)}
    assert Attempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_shard_that_ends_in_time_releases_nothing_before(test_database_url: str) -> None:
    with endpoint() as (url, answers):
        answers.set()
        deliver_to(url)
        ids = enqueue(5)
        taken = claim()
        run_shards(test_database_url, taken)
    assert fetch_values("SELECT released FROM node") == [None]
    assert settle() == Settled(delivered=5)
    assert states(ids) == ["DLVD"] * 5
