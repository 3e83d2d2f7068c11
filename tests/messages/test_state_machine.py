"""Claim, deliver, fail, crash, lose a node, release, approve, give up, restart, in any order: the model agrees always.

`pytest tests/messages/test_state_machine.py --hypothesis-profile long` looks for longer, and elsewhere each time.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
    run_state_machine_as_test,
)

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands import decisions
from poisonadmin.delivery.commands.claim import claim_due, claim_isolated
from poisonadmin.delivery.commands.recovery import recover
from tests.fixtures.decisions import approve, deliver_now, mark_fail, postpone, quarantine, restore
from tests.messages.modelled import Modelled
from tests.messages.reference_model import Expected
from tests.messages.simulated_tasks import write

WHY: decisions.Asked = {"principal": SYSTEM, "reason": "a test"}
# Few, so that much happens to each.
MAX_MESSAGES = 5
ANSWERS = ("delivered", "failed", "crashed", "discarded", "rolled_back")


def tomorrow(ids: Sequence[int], **asked: Unpack[decisions.Asked]) -> decisions.Decided:
    """Postpone by a day."""
    return postpone(ids, until=datetime.now(UTC) + timedelta(days=1), **asked)


Decision = tuple[Callable[..., decisions.Decided], str, Callable[[Expected], None]]
DECISIONS: dict[str, Decision] = {
    "approve": (approve, "NDLV", Expected.approved),
    "mark_fail": (mark_fail, "NDLV", Expected.given_up),
    "restore": (restore, "FAIL", Expected.restored),
    "quarantine": (quarantine, "TBDL", Expected.quarantined),
    "deliver_now": (deliver_now, "TBDL", Expected.returned),
    "postpone": (tomorrow, "TBDL", Expected.postponed),
}


class Machine(Modelled):
    """What may happen, in any order."""

    # What comes in, is taken, and is answered.

    @precondition(lambda self: len(self.messages) < MAX_MESSAGES)
    @rule(count=st.integers(1, 3))
    def enqueue(self, count: int) -> None:
        self.take_in(count)

    @precondition(lambda self: self.is_claimable())
    @rule(begins=st.sampled_from([True, True, True, False]))
    def claim(self, begins: bool) -> None:
        """Candidates first, as the worker does: nothing is due for longer. Nothing else is under way beside them."""
        alone = self.due(is_alone=True)
        under_way = [task.claim for task in self.tasks if task.held]
        taken = claim_isolated()
        if taken is None:
            assert under_way or not alone, f"{alone} are to be tried alone and were not claimed"
            is_closed = alone or any(claim.is_isolation for claim in under_way)
            self.taken(claim_due(tasks=2), [] if is_closed else self.due(is_alone=False), begins)
        else:
            assert not under_way
            self.taken(taken, alone, begins)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), outcome=st.sampled_from(ANSWERS), settles=st.booleans())
    def answer(self, data: st.DataObject, outcome: str, settles: bool) -> None:
        task = data.draw(st.sampled_from(self.running()))
        self.write(task, data.draw(st.sampled_from(task.held)), outcome)
        if settles:
            self.settle()

    @precondition(lambda self: self.never_answered())
    @rule(data=st.data(), outcome=st.sampled_from([*ANSWERS, "node_lost"]))
    def write_late(self, data: st.DataObject, outcome: str) -> None:
        """An outcome of an attempt that is over arrives: it changes nothing, now or later."""
        message, attempt = data.draw(st.sampled_from(self.never_answered()))
        write(message, attempt, None, outcome)
        self.settle()

    # What becomes of tasks.

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), how=st.sampled_from(["well", "not knowing all", "lost", "lost", "lost", "machine lost"]))
    def end_task(self, data: st.DataObject, how: str) -> None:
        task = data.draw(st.sampled_from(self.tasks))
        if task.node is None:
            self.lose_the_job(task)
        elif how == "lost":
            self.lose(task, data)
            if data.draw(st.booleans()):
                self.read_pages()
        elif how == "machine lost":
            self.lose_with_its_machine(task)
        else:
            task.end([] if how == "well" else task.held)
            self.settle()
            self.give_back(task)

    @precondition(lambda self: any(task.node is None for task in self.tasks))
    @rule(data=st.data())
    def begin_late(self, data: st.DataObject) -> None:
        assert data.draw(st.sampled_from([task for task in self.tasks if task.node is None])).enter()

    @precondition(lambda self: self.lost)
    @rule()
    def find_pages(self) -> None:
        self.read_pages()

    @precondition(lambda self: self.answered or self.lost)
    @rule()
    def restart(self) -> None:
        """Every tick runs again, and then once more."""
        recover()
        recover()
        self.settled()

    # What brokers do.

    @precondition(lambda self: any(one.attempt_number for one in self.messages.values()))
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """Any attempt of any message comes back as a dead letter, also such as never reached a broker."""
        message = data.draw(st.sampled_from([id_ for id_, one in self.messages.items() if one.attempt_number]))
        self.bring_back(message, data.draw(st.integers(1, self.messages[message].attempt_number + 1)))

    @precondition(lambda self: self.put_off)
    @rule()
    def look_again(self) -> None:
        self.look_at_what_was_put_off()

    # What people do.

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), name=st.sampled_from(sorted(DECISIONS)))
    def decide(self, data: st.DataObject, name: str) -> None:
        """Decide on any message: it is carried out where it is legal, and refused elsewhere."""
        decision, state, then = DECISIONS[name]
        message = data.draw(st.sampled_from(sorted(self.messages)))
        decided = decision([message], **WHY)
        if self.messages[message].state == state:
            assert decided.changed == (message,)
            then(self.messages[message])
        else:
            assert decided.refused == {message: self.messages[message].state}

    @precondition(lambda self: self.stopped())
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.stopped()))
        assert approve([message], **WHY).changed == (message,)
        self.messages[message].approved()


@pytest.mark.django_db
def test_in_any_order_every_message_is_where_the_model_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text("def handle(message): ...\n")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    monkeypatch.setenv("POISONADMIN_HOME", str(tmp_path))
    bounded: dict[str, Any] = {"max_examples": 40, "stateful_step_count": 40, "derandomize": True}
    limits = {} if settings.get_current_profile_name() == "long" else bounded
    run_state_machine_as_test(
        Machine, settings=settings(**limits, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
    )
