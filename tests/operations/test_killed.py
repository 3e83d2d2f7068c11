"""Whoever carries an operation on is killed at any moment: the next goes on, and every message is decided on once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.messages.commands.counts import fold
from poisonadmin.search.commands import selections
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from tests.faults.invariants import all_broken
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_destination
from tests.messages.overlap import rows
from tests.whole_system.installation import until

pytestmark = pytest.mark.django_db(transaction=True)
PROJECT = Path(__file__).resolve().parents[2]
MESSAGES = 300
PIECE = 10


@pytest.fixture(autouse=True)
def small_pieces(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the shop, and cut selections into pieces that only a tick decides on."""
    make_destination()
    monkeypatch.setattr(selections, "MEMBERS_A_PIECE", PIECE)
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)


def killed_after(database_url: str, pieces: int, seconds: float) -> None:
    """Carry on in a process of its own, and kill it in the middle of a piece."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.operations.carry_on"],
        cwd=PROJECT,
        env=os.environ | {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for _ in range(pieces):
            process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)


def carry_on_to_the_end(operation: int) -> None:
    """Carry on tick by tick: the first may end before the database has noticed that the killed process is gone."""
    until(lambda: carry_on() == 0 and is_walked(operation))


def is_walked(operation: int) -> bool:
    found = get_operation(operation, principal=SYSTEM)
    return found.ended_at is not None or found.walked == MESSAGES


@pytest.mark.parametrize("seed", range(2))
def test_an_operation_goes_on_after_each_kill_and_decides_once(test_database_url: str, seed: int) -> None:
    dice = random.Random(seed)
    ids = [take_dead() for _ in range(MESSAGES)]
    operation = begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="r", principal=SYSTEM)
    for _ in range(3):
        killed_after(test_database_url, dice.randint(1, 8), dice.random() * 0.02)
        found = get_operation(operation, principal=SYSTEM)
        assert found.ledger.total == MESSAGES
        approved = Message.objects.filter(state="TBDL").count()
        assert approved == found.walked, "a piece is decided on with how far it is, or not at all"
    carry_on_to_the_end(operation)
    events = Counter(History.objects.filter(event="approved").values_list("message_id", flat=True))
    assert events == dict.fromkeys(ids, 1)
    assert get_operation(operation, principal=SYSTEM).walked == MESSAGES
    fold()
    assert all_broken(rows) == []


def test_a_cancelled_operation_is_undone_after_a_kill(test_database_url: str) -> None:
    ids = [take_dead() for _ in range(MESSAGES)]
    operation = begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="r", principal=SYSTEM)
    killed_after(test_database_url, 9, 0.01)
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    carry_on_to_the_end(operation)
    found = get_operation(operation, principal=SYSTEM)
    assert (found.ledger.cancelled, found.ended_at is not None) == (MESSAGES, True)
    assert set(Message.objects.filter(id__in=ids).values_list("state", "reason")) == {("NDLV", "imported")}
    fold()
    assert all_broken(rows) == []
