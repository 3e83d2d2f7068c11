"""The parts that need no whole system, at a size that takes no time: that they run, not how fast."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from django.db import connection

from benchmarks import b06_claim_settle, bare_copy, files, loads
from benchmarks.consumer import Arrival, running_sink
from benchmarks.live import lateness
from benchmarks.suite import BENCHMARKS, Benchmark
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.store.models.destination import Destination
from tests.fixtures.delivery import counted, counters
from tests.services import Services


@pytest.mark.parametrize("one", BENCHMARKS, ids=lambda one: one.name)
def test_each_benchmark_finds_what_it_measures(one: Benchmark) -> None:
    assert callable(one.load())


@pytest.mark.django_db(transaction=True)
def test_claim_and_settle_and_the_bare_updates_do_the_same_messages() -> None:
    loads.deliver_to("b6", "http://127.0.0.1:9/", concurrency=512)
    assert b06_claim_settle.claim_and_settle(600).per_second > 0
    assert counters() == counted()
    assert b06_claim_settle.bare_updates(600).per_second > 0
    assert Destination.objects.get(name="b6").is_enabled


@pytest.mark.django_db(transaction=True)
def test_the_bare_copy_brings_back_what_the_intake_made(tmp_path: Path, services: Services) -> None:
    url = services.database_url.rpartition("/")[0] + "/" + str(connection.settings_dict["NAME"])
    (path,) = files.write_ndjson(tmp_path / "dropped", 50)
    assert accept_stream([path.read_bytes()], principal=SYSTEM).accepted == 50
    bare_copy.dump(url, tmp_path)
    assert bare_copy.load(url, tmp_path, 50).per_second > 0
    assert sum(counted().values()) == 50


def test_the_sink_answers_as_the_path_says_and_remembers_what_came() -> None:
    with running_sink() as sink:
        headers = {"PoisonAdmin-Message-Id": "17", "PoisonAdmin-Attempt": "2"}
        request = urllib.request.Request(sink.url("/fail/here"), b"body", headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        refused.value.close()
        with urllib.request.urlopen(sink.url("/ok"), b"body") as answer:
            assert answer.read() == b"ok"
        assert [arrival[:2] for arrival in sink.take_arrivals("/fail/here")] == [(17, 2)]
        assert sink.take_arrivals("/fail/here") == []


def test_lateness_counts_first_attempts_from_when_they_were_due() -> None:
    arrivals = [Arrival(1, 1, 100.5), Arrival(1, 2, 109.0), Arrival(2, 1, 100.0)]
    assert lateness(arrivals, {1: 100.0, 2: 100.25}) == [0.5, -0.25]
