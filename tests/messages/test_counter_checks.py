"""Counters that are wrong are found, told of, and mended, also while messages move."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from poisonadmin.core.commands.locks import Tick, hold
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.commands.counts import check_some, fold, verify
from poisonadmin.messages.queries.counts import wrong_counters, wrong_counts
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.history import Counter, CounterCheck, CounterDelta
from poisonadmin.store.models.lane import Address
from poisonadmin.system.queries.overview import system_metrics
from tests.fixtures import decisions
from tests.fixtures.delivery import counted, counters, enqueue
from tests.fixtures.pages import dead_letter
from tests.messages.overlap import overlap

ELSEWHERE = principal("kim", Role.VIEWER, ["bills.#"])


def spoil() -> None:
    """Have three messages counted on orders.eu that are not there, and three on bills that are not."""
    enqueue(3, address="orders.eu")
    enqueue(4, address="bills")
    dead_letter("parking", dead_letter={"original_address": "orders.eu"})
    fold()
    Counter.objects.filter(address_id=counter_of("orders.eu").address_id).update(total=6)
    Counter.objects.filter(address_id=counter_of("bills").address_id).delete()


def counter_of(address: str) -> Counter:
    return Counter.objects.get(address_id=Address.objects.get(name=address).id)


@pytest.mark.django_db
def test_a_wrong_counter_is_told_with_both_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("verify_counts")
    assert capsys.readouterr().out == "All counts are right.\n"
    spoil()
    with pytest.raises(CommandError, match="2 counts are wrong"):
        call_command("verify_counts")
    assert capsys.readouterr().out.splitlines() == [
        "bills TBDL reason -, group -, original address -: counted 0, there are 4",
        "orders.eu TBDL reason -, group -, original address -: counted 6, there are 3",
    ]


@pytest.mark.django_db
def test_a_repair_corrects_them_and_is_audited() -> None:
    spoil()
    call_command("verify_counts", repair=True, verbosity=0)
    assert counters() == counted()
    assert wrong_counters() == []
    assert Audit.objects.filter(action="counts.repaired").values_list("actor", "details").get() == (
        "command line",
        {"counters": 2},
    )
    assert verify(is_repair=True, actor="kim") == []
    assert Audit.objects.filter(action="counts.repaired").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_repair_is_right_while_messages_move() -> None:
    spoil()
    ids = enqueue(5, address="orders.eu")
    moved = overlap(
        lambda: decisions.quarantine(ids, principal=SYSTEM, reason="r"),
        lambda: verify(is_repair=True, actor="kim"),
    )
    assert len(moved.second) == 2
    assert not moved.waited
    assert counters() == counted()


@pytest.mark.django_db(transaction=True)
def test_of_two_repairs_at_once_one_finds_nothing() -> None:
    spoil()
    both = overlap(lambda: verify(is_repair=True, actor="kim"), lambda: verify(is_repair=True, actor="lee"))
    assert (len(both.first), both.second, both.waited) == (2, [], True)
    assert counters() == counted()


@pytest.mark.django_db
def test_the_tick_finds_them_address_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil()
    monkeypatch.setattr("poisonadmin.messages.commands.counts.SECONDS_A_TICK", 0.0)
    assert check_some() == 0
    monkeypatch.setattr("poisonadmin.messages.commands.counts.SECONDS_A_TICK", 60.0)
    assert check_some() == 3
    assert [(one.address, one.messages) for one in wrong_counts(SYSTEM)] == [("bills", 4), ("orders.eu", 3)]
    assert [one.address for one in wrong_counts(ELSEWHERE)] == ["bills"]
    assert system_metrics().miscounted == 7


@pytest.mark.django_db
def test_an_address_has_its_turn_again_an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(address="orders.eu")
    monkeypatch.setattr("poisonadmin.messages.commands.counts.SECONDS_A_TICK", 60.0)
    assert check_some() == 1
    CounterCheck.objects.update(seconds=0)
    assert check_some() == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE counter_check SET checked_at = now() - interval '61 minutes', seconds = 40")
    assert check_some() == 0, "a piece that took 40 s is followed by 4,000 s of rest"
    CounterCheck.objects.update(seconds=30)
    assert check_some() == 1


@pytest.mark.django_db
def test_what_the_tick_found_is_forgotten_with_a_repair() -> None:
    spoil()
    check_some()
    verify(is_repair=True, actor="kim")
    assert wrong_counts(SYSTEM) == []
    assert check_some() == 3
    assert wrong_counts(SYSTEM) == []


@pytest.mark.django_db(transaction=True)
def test_the_tick_does_nothing_while_another_one_compares() -> None:
    enqueue(address="orders.eu")

    def hold_the_lock() -> None:
        with connection.cursor() as cursor:
            hold(cursor, Lock.TICK, Tick.COUNTS)

    assert overlap(hold_the_lock, check_some).second == 0
    assert check_some() == 1


@pytest.mark.django_db(transaction=True)
def test_a_check_sees_no_half_of_a_change() -> None:
    ids = enqueue(5, address="orders.eu")
    assert overlap(lambda: decisions.quarantine(ids, principal=SYSTEM, reason="r"), wrong_counters).second == []
    with transaction.atomic():
        decisions.restore(ids, principal=SYSTEM, reason="r")
        assert wrong_counters() == []
    assert CounterDelta.objects.exists()
