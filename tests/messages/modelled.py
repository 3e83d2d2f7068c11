"""The messages of one address as the database has them and as the model says, and the tasks that hold them."""

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import ClaimRef
from poisonadmin.delivery.commands.recovery import recover, search_lost_nodes
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.destinations.commands import save_destination
from poisonadmin.intake.commands.merge import Merged
from poisonadmin.policies.commands import save_policy
from poisonadmin.sources.commands.draining import merge_left_over
from tests.faults import invariants
from tests.fixtures.delivery import enqueue
from tests.intake.staging import DIED, drained, letter, make_source
from tests.messages.overlap import rows
from tests.messages.reference_model import ATTEMPTS, Expected, Rules
from tests.messages.simulated_tasks import HERE, IN_PAGES, Task, execute, write
from workers.dispatcher import LocalJournals

FAILURES = DIED.delivery_count or 1


class Modelled(RuleBasedStateMachine):
    """What the rules work on. After every step the database and the model must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[int, Expected] = {}
        self.tasks: list[Task] = []
        self.lost: list[Task] = []  # and their journals not read yet
        self.answered: dict[int, str] = {}  # written, and not settled yet
        self.attempts: dict[int, int] = {}
        self.put_off: list[tuple[int, int]] = []  # came back before their delivery was settled
        # One transaction an example: its clock stands still, and it leaves nothing behind.
        self.example = transaction.atomic()
        self.example.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.example.__exit__(None, None, None)

    @initialize(accuses_all=st.booleans(), blacklists=st.sampled_from([True, True, True, False]), clears=st.booleans())
    def set_up(self, accuses_all: bool, blacklists: bool, clears: bool) -> None:
        self.in_force = Rules(accuses_all, blacklists, clears)
        config = {"callable": "shop:handle", "concurrency": 64}
        save_destination(
            "handler", kind="handler", config=config, secrets=None, max_rate_per_second=None, principal=SYSTEM
        )
        wanted: dict[str, object] = {
            "redelivery_delay": 0,
            "max_delivery_attempts": ATTEMPTS,
            "blame": "all_in_flight" if accuses_all else "exact",
            "blacklisting_enabled": blacklists,
            "approve_clears_candidate": clears,
        }
        save_policy("orders.#", preset=None, settings=wanted, destination="handler", principal=SYSTEM)
        self.source = make_source()
        self.take_in(3)

    # What must hold after every step.

    @invariant()
    def every_message_is_what_the_model_says(self) -> None:
        found = rows("SELECT id, state, reason, candidate, crash_count, failure_count, attempt_number FROM message")
        assert {row[0]: row[1:] for row in found} == {message: one.row for message, one in self.messages.items()}

    @invariant()
    def attempt_numbers_never_fall(self) -> None:
        for message, attempt in rows("SELECT id, attempt_number FROM message"):
            assert attempt >= self.attempts.get(message, 0)
            self.attempts[message] = attempt

    @invariant()
    def histories_lead_to_where_messages_are_and_counters_agree(self) -> None:
        for holds in (invariants.broken_chains, invariants.wrong_counters, invariants.sleeping, invariants.stuck):
            assert holds(rows) == []

    @invariant()
    def what_is_in_delivery_is_held_by_somebody(self) -> None:
        held = {message for task in [*self.tasks, *self.lost] for message in task.held} | set(self.answered)
        assert {message for message, one in self.messages.items() if one.state == "DLNG"} == held
        assert rows(_HELD_BY_NOBODY) == []

    # What the rules are made of.

    def due(self, *, is_alone: bool) -> list[int]:
        return [
            message
            for message, one in self.messages.items()
            if one.state == "TBDL" and one.is_due and one.is_alone is is_alone
        ]

    def is_claimable(self) -> bool:
        return any(one.state == "TBDL" and one.is_due for one in self.messages.values())

    def never_answered(self) -> list[tuple[int, int]]:
        return [(message, attempt) for message, attempt in rows(_NEVER_ANSWERED) if message in self.messages]

    def running(self) -> list[Task]:
        return [task for task in self.tasks if task.node is not None and task.held]

    def taken(self, taken: ClaimRef | None, due: list[int], begins: bool) -> None:
        """Check that the claim has taken those that are due, and nothing else."""
        if taken is None:
            assert not due, f"{due} are due and were not claimed"
            return
        held = [message for (message,) in rows(_TAKEN, taken.id)]
        assert held == due
        assert taken.size == len(due)
        for message in held:
            self.messages[message].claimed()
        task = Task(taken, held)
        self.tasks.append(task)
        assert not begins or task.enter()

    def take_in(self, count: int) -> None:
        self.messages |= {message: Expected(self.in_force) for message in enqueue(count)}

    def bring_back(self, message: int, attempt: int) -> None:
        [(payload,)] = rows("SELECT convert_from(payload, 'UTF8') FROM body WHERE id = %s", message)
        before = self.messages[message].state
        merged = drained(self.source, letter(payload=payload, back=(message, attempt)))
        if not self.messages[message].came_back(attempt, FAILURES):
            self.put_off.append((message, attempt))
            assert merged == Merged()
        else:
            is_opened = self.messages[message].state != before
            assert (merged.returned, merged.duplicates, merged.accepted) == (is_opened, not is_opened, 0)

    def look_at_what_was_put_off(self) -> None:
        waiting, self.put_off = self.put_off, []
        merge_left_over(self.source.id)
        for message, attempt in waiting:
            if not self.messages[message].came_back(attempt, FAILURES):
                self.put_off.append((message, attempt))

    def write(self, task: Task, message: int, outcome: str) -> None:
        write(message, self.messages[message].attempt_number, task.claim.id, outcome)
        task.held.remove(message)
        task.report()
        self.answered[message] = outcome

    def settle(self) -> None:
        settle()
        self.settled()

    def settled(self) -> None:
        for message, outcome in self.answered.items():
            getattr(self.messages[message], outcome)()
        self.answered.clear()

    def lose(self, task: Task, data: st.DataObject) -> None:
        """The task dies while it handles one message; another may be answered in its journals and not be written."""
        begun = data.draw(st.permutations(task.held))[: data.draw(st.sampled_from([1, 2, 0]))]
        result = data.draw(st.sampled_from(sorted(IN_PAGES)))
        task.leave_pages([(message, self.messages[message].attempt_number) for message in begun], result)
        task.fall_silent()
        recover()
        self.settled()
        self.tasks.remove(task)
        self.lost.append(task)

    def read_pages(self) -> None:
        """What lost nodes had answered counts, what was in turn had begun, the rest goes back."""
        search_lost_nodes(HERE, LocalJournals())
        for task in self.lost:
            self.answered |= task.in_pages
            task.held = [message for message in task.held if message not in task.in_pages]
        self.settle()
        for task in self.lost:
            for message in task.held:
                self.messages[message].returned()
        self.lost.clear()

    def lose_with_its_machine(self, task: Task) -> None:
        """All that the task had not answered counts as begun, but candidates: none has a start mark."""
        task.vanish()
        self.settle()
        self.tasks.remove(task)
        if task.claim.is_isolation:
            self.lost.append(task)
        else:
            self.answered |= dict.fromkeys(task.held, "node_lost")
        self.read_pages()

    def lose_the_job(self, task: Task) -> None:
        """Nobody takes the claim before its lease ends; whoever comes later finds it taken."""
        execute("UPDATE claim SET lease_until = now() - interval '1 s' WHERE id = %s", task.claim.id)
        recover()
        self.settled()
        self.give_back(task)
        assert not task.enter()

    def give_back(self, task: Task) -> None:
        for message in task.held:
            self.messages[message].returned()
        self.tasks.remove(task)

    def stopped(self) -> list[int]:
        return [message for message, one in self.messages.items() if one.state == "NDLV"]


_TAKEN = "SELECT unnest(message_ids) FROM claim_shard WHERE claim_id = %s"
_NEVER_ANSWERED = """
SELECT id, number FROM message CROSS JOIN LATERAL
    generate_series(1, attempt_number - (state = 'DLNG')::int) AS number
WHERE NOT EXISTS (SELECT FROM attempt WHERE message_id = id AND attempt.attempt_number = number) ORDER BY 1, 2
"""
_HELD_BY_NOBODY = """
SELECT message.id FROM message LEFT JOIN claim ON claim.id = message.claim_id
WHERE state = 'DLNG' AND claim.is_open IS NOT TRUE
"""
